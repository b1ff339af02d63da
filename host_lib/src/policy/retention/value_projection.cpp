// value_projection: tokens whose values make the output what it is.
//
// Attention alone overlooks what is attended to: a token matters by its mass times the length of
// its value along the output (AnDPro: Anchor Direction Projection, NeurIPS 2025), summed over
// queries and fading by `decay`. Needs the values of the tokens that a query selected, from a
// GATHER of the same ids; those of others are not read.
#include <cmath>

#include "policy/retention/observation.hpp"
#include "policy/retention/policies.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<1> kParameters = {
    {{"decay", 0.97F, 0, 1, "what a sum keeps of itself from one query to the next"}}};

class ValueProjection final : public RetentionPolicy {
 public:
  explicit ValueProjection(float decay)
      : RetentionPolicy("value_projection", {decay}, {.along_output = true}, 1, 0), decay_(decay) {}

 private:
  void on_observe(const Observation& seen) override {
    const auto sums = column(0);
    for (float& sum : sums) sum *= decay_;
    const float share = 1.0F / static_cast<float>(seen.rows);
    each_named(seen, [&](std::uint32_t id, float mass, std::size_t i) {
      sums[id] += share * mass * std::abs(seen.along_output[i]);
    });
  }

  void on_worth(std::span<float> worth) const override {
    std::ranges::copy(column(0), worth.begin());
  }

  [[nodiscard]] std::unique_ptr<RetentionPolicy> empty() const override {
    return std::make_unique<ValueProjection>(decay_);
  }

  float decay_;
};

std::unique_ptr<RetentionPolicy> make(const Parameters& parameters) {
  return std::make_unique<ValueProjection>(parameters.at("decay"));
}

}  // namespace

NamedRetentionPolicy value_projection() { return {"value_projection", kParameters, make}; }

}  // namespace nearkv
