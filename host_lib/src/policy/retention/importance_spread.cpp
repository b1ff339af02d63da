// importance_spread: tokens that queries attend to, and those on which they disagree.
//
// A token that some queries need and others do not will be needed again, which a mean alone does
// not show: worth is the mean of its attention plus `variance` times its variance over queries,
// spread to neighbours (the indicator of CAKE: Qin et al., ICLR 2025). CAKE's budgets for layers,
// which go with it, are the budget `cascade`.
#include "policy/retention/observation.hpp"
#include "policy/retention/policies.hpp"
#include "policy/retention/pooled.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<3> kParameters = {
    {{"variance", 200, 0, 1e6F, "weight of the variance, of shares squared"},
     {"pool", 5, 1, 1023, "tokens among which the largest worth counts for each"},
     {"decay", 1, 0, 1, "what is kept of older queries from one to the next"}}};

class ImportanceSpread final : public RetentionPolicy {
 public:
  ImportanceSpread(float variance, float pool, float decay)
      : RetentionPolicy("importance_spread", {variance, pool, decay}, {}, 2, 1),
        variance_(variance),
        pool_(pool),
        decay_(decay) {}

 private:
  enum Column : std::uint8_t { kSum, kSquares };

  void on_observe(const Observation& seen) override {
    const auto sums = column(kSum);
    const auto squares = column(kSquares);
    if (decay_ < 1) {
      for (float& sum : sums) sum *= decay_;
      for (float& square : squares) square *= decay_;
    }
    scalar(0) = decay_ * scalar(0) + static_cast<float>(seen.rows);
    each_named(seen, [&](std::uint32_t id, float mass, std::size_t) {
      sums[id] += mass;
      squares[id] += mass * mass;
    });
  }

  void on_worth(std::span<float> worth) const override {
    const float queries = std::max(scalar(0), 1.0F);
    const auto sums = column(kSum);
    const auto squares = column(kSquares);
    std::vector<float> alone(worth.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const float mean = sums[i] / queries;
      alone[i] = mean + variance_ * std::max(squares[i] / queries - mean * mean, 0.0F);
    }
    pool_largest(alone, static_cast<std::size_t>(pool_), worth);
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<ImportanceSpread>(variance_, pool_, decay_);
  }

  float variance_;
  float pool_;
  float decay_;
};

std::unique_ptr<RetentionPolicy> make(const Parameters& parameters) {
  return std::make_unique<ImportanceSpread>(parameters.at("variance"), parameters.at("pool"),
                                            parameters.at("decay"));
}

}  // namespace

NamedRetentionPolicy importance_spread() { return {"importance_spread", kParameters, make}; }

}  // namespace nearkv
