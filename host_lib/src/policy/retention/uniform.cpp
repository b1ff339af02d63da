// uniform: every head the same.
//
// What most papers take, and the one that all others have to beat. What a short head has no tokens
// for goes to the rest.
#include "policy/retention/budget_rules.hpp"

namespace nearkv {
namespace {

std::vector<double> weights(std::span<const HeadDemand> heads, const Parameters& /*parameters*/) {
  return std::vector<double>(heads.size(), 1);
}

}  // namespace

BudgetRule uniform() { return {{"uniform", "the same for every head", {}}, weights}; }

}  // namespace nearkv
