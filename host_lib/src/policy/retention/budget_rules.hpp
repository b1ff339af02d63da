// How heads share a budget: one file each, whose head says who gets more, and why.
#pragma once

#include <span>
#include <vector>

#include "nearkv/retention.hpp"
#include "policy/retention/parameters.hpp"

namespace nearkv {

/// A rule that ships. `weights` gives a number for each head; shares are as these, as far as heads
/// have tokens.
struct BudgetRule {
  NamedBudget named;
  std::vector<double> (*weights)(std::span<const HeadDemand> heads, const Parameters& parameters);
};

[[nodiscard]] BudgetRule stable_heads();
[[nodiscard]] BudgetRule uniform();
[[nodiscard]] BudgetRule workflow();

/// The weights of a rule that looks at one head at a time.
template <typename Weight>
std::vector<double> weights_each(std::span<const HeadDemand> heads, Weight&& weight) {
  std::vector<double> weights;
  weights.reserve(heads.size());
  for (const HeadDemand& head : heads) weights.push_back(weight(head));
  return weights;
}

}  // namespace nearkv
