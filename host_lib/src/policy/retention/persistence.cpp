// persistence: tokens that were important to many queries of late, however much.
//
// What was important stays important (Scissorhands: Liu et al., NeurIPS 2023). A query finds a
// token important if it gives it more than `threshold` times its even share, 1 / tokens seen; that
// is counted over the last `window` to twice as many queries. Counts forgive single peaks, which
// sums do not.
#include "policy/retention/observation.hpp"
#include "policy/retention/policies.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<2> kParameters = {
    {{"window", 400, 1, 1 << 20, "queries in which importance is counted"},
     {"threshold", 1, 0, 1 << 20, "even shares that make a token important"}}};

class Persistence final : public RetentionPolicy {
 public:
  Persistence(float window, float threshold)
      : RetentionPolicy("persistence", {window, threshold}, {}, 2, 1),
        window_(window),
        threshold_(threshold) {}

 private:
  enum Column : std::uint8_t { kNow, kBefore };

  void on_observe(const Observation& seen) override {
    float& queries = scalar(0);
    if (queries >= window_) {
      std::ranges::copy(column(kNow), column(kBefore).begin());
      std::ranges::fill(column(kNow), 0.0F);
      queries = 0;
    }
    queries += 1;
    const auto now = column(kNow);
    const float important = threshold_ / (static_cast<float>(seen.position) + 1);
    const float share = 1.0F / static_cast<float>(seen.rows);
    each_named(seen, [&](std::uint32_t id, float mass, std::size_t) {
      if (mass > important) now[id] += share;
    });
  }

  void on_worth(std::span<float> worth) const override {
    const auto now = column(kNow);
    const auto before = column(kBefore);
    for (std::size_t i = 0; i < worth.size(); ++i) worth[i] = now[i] + before[i];
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<Persistence>(window_, threshold_);
  }

  float window_;
  float threshold_;
};

std::unique_ptr<RetentionPolicy> make(const Parameters& parameters) {
  return std::make_unique<Persistence>(parameters.at("window"), parameters.at("threshold"));
}

}  // namespace

NamedRetentionPolicy persistence() { return {"persistence", kParameters, make}; }

}  // namespace nearkv
