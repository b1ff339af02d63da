// heavy_hitters: tokens that attention came back to most, summed over all queries so far.
//
// A few tokens take most of all attention, and go on doing so; beside the most recent tokens they
// are kept, and the rest is given up (H2O: Zhang et al., NeurIPS 2023). The sum favours old tokens,
// which more queries saw; `decay` below 1 lets old fame fade, and at 0.5 tells what the last
// queries selected, by which FlexiCache (2025) keeps pages close.
#include "policy/retention/observation.hpp"
#include "policy/retention/policies.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<1> kParameters = {
    {{"decay", 1, 0, 1, "what a sum keeps of itself from one query to the next"}}};

class HeavyHitters final : public RetentionPolicy {
 public:
  explicit HeavyHitters(float decay)
      : RetentionPolicy("heavy_hitters", {decay}, {}, 1), decay_(decay) {}

 private:
  void on_observe(const Observation& seen) override {
    const auto sums = column(0);
    if (decay_ < 1) {
      for (float& sum : sums) sum *= decay_;
    }
    const float share = 1.0F / static_cast<float>(seen.rows);
    each_named(seen, [&](std::uint32_t id, float mass) { sums[id] += share * mass; });
  }

  void on_worth(std::span<float> worth) const override {
    std::ranges::copy(column(0), worth.begin());
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<HeavyHitters>(decay_);
  }

  float decay_;
};

std::unique_ptr<RetentionPolicy> make(const Parameters& parameters) {
  return std::make_unique<HeavyHitters>(parameters.at("decay"));
}

}  // namespace

NamedRetentionPolicy heavy_hitters() { return {"heavy_hitters", kParameters, make}; }

}  // namespace nearkv
