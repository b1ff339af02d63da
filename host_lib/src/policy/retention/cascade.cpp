// cascade: layers whose attention is wide, or changes from query to query, get more.
//
// A layer that looks at few tokens, always the same, loses little with the rest. A layer's weight
// is the mean entropy of its heads' attention times its mean variance over queries (CAKE: Qin et
// al., ICLR 2025); as layers behind it come, those before give up their part, so that a prompt's
// cache is never larger than the budget. Heads of a layer get the same.
#include <cmath>
#include <map>

#include "policy/retention/budget_rules.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<2> kParameters = {
    {{"entropy_root", 1, 0.01F, 100, "root taken of a layer's entropy (the paper's tau 1)"},
     {"variance_root", 1, 0.01F, 100, "root taken of a layer's variance (its tau 2)"}}};

std::vector<double> weights(std::span<const HeadDemand> heads, const Parameters& parameters) {
  struct Layer {
    double entropy = 0, variance = 0, heads = 0;
  };
  std::map<std::uint16_t, Layer> layers;
  for (const HeadDemand& head : heads) {
    Layer& layer = layers[head.layer];
    layer.entropy += head.entropy;
    layer.variance += head.variance;
    layer.heads += 1;
  }
  const double entropy_power = 1 / parameters.at("entropy_root");
  const double variance_power = 1 / parameters.at("variance_root");
  return weights_each(heads, [&](const HeadDemand& head) {
    const Layer& layer = layers.at(head.layer);
    return std::pow(layer.entropy / layer.heads, entropy_power) *
           std::pow(layer.variance / layer.heads, variance_power);
  });
}

}  // namespace

BudgetRule cascade() {
  return {
      {"cascade", "by layers: wide attention and changing attention get more (CAKE)", kParameters},
      weights};
}

}  // namespace nearkv
