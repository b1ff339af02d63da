// layer_weights: each layer by what later layers make of its output.
//
// With attention over layers' outputs (attention residuals) a model itself says how much a later
// layer takes from an earlier one; a layer that nobody looks back at needs less of its cache. The
// weights are the user's, or measured: HeadDemand::layer_weight.
#include "policy/retention/budget_rules.hpp"

namespace nearkv {
namespace {

std::vector<double> weights(std::span<const HeadDemand> heads, const Parameters& /*parameters*/) {
  return weights_each(heads, [](const HeadDemand& head) { return head.layer_weight; });
}

}  // namespace

BudgetRule layer_weights() {
  return {{"layer_weights", "by what later layers make of each layer's output", {}}, weights};
}

}  // namespace nearkv
