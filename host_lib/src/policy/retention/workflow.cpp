// workflow: sequences by the steps until their agent runs again.
//
// A graph of agents tells which sequence is needed next and which not for long; those keep less,
// and none of them is dropped for being old (KVFlow, 2025). HeadDemand::steps_to_next_use is the
// user's; heads of several sequences are shared out together.
#include <cmath>

#include "policy/retention/budget_rules.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<1> kParameters = {
    {{"power", 1, 0, 16, "of the steps to its next use by which a sequence's weight falls"}}};

std::vector<double> weights(std::span<const HeadDemand> heads, const Parameters& parameters) {
  const double power = parameters.at("power");
  return weights_each(heads, [&](const HeadDemand& head) {
    return std::pow(1.0 + head.steps_to_next_use, -power);
  });
}

}  // namespace

BudgetRule workflow() {
  return {{"workflow", "by steps until the sequence's agent runs again (KVFlow)", kParameters},
          weights};
}

}  // namespace nearkv
