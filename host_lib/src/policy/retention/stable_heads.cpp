// stable_heads: less to heads that select the same pages again and again.
//
// Such a head's last selection will do for its next query, so that the few pages it needs are
// known; another one wants more of them close at hand (FlexiCache, 2025). Goes with heavy_hitters
// at a decay of 0.5, by whole pages.
#include "policy/retention/budget_rules.hpp"

namespace nearkv {
namespace {

constexpr ParameterTable<2> kParameters = {
    {{"stable", 0.8F, 0, 1, "stability from which a head's last selection will do"},
     {"times", 4, 1, 1e6F, "what a token of another head weighs beside one of a stable head"}}};

std::vector<double> weights(std::span<const HeadDemand> heads, const Parameters& parameters) {
  const float stable = parameters.at("stable");
  const double times = parameters.at("times");
  return weights_each(heads, [&](const HeadDemand& head) {
    return head.tokens * (head.stability >= stable ? 1.0 : times);
  });
}

}  // namespace

BudgetRule stable_heads() {
  return {{"stable_heads", "less to heads that select the same pages again and again (FlexiCache)",
           kParameters},
          weights};
}

}  // namespace nearkv
