#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "nearkv/retention.hpp"
#include "policy/retention/budget_rules.hpp"

namespace nearkv {
namespace {

using Weights = std::vector<double>;

std::span<const BudgetRule> rules() {
  static const std::array shipped = {uniform(), stable_heads(), workflow()};
  return shipped;
}

/// Proportional parts of `total`, none above its head's tokens; what is left over goes to the rest.
std::vector<double> fill(std::span<const HeadDemand> heads, Weights weights, double total) {
  std::vector<double> parts(heads.size());
  std::vector<std::size_t> open(heads.size());
  std::iota(open.begin(), open.end(), 0);
  while (!open.empty()) {
    double sum = 0;
    for (const std::size_t i : open) sum += weights[i];
    if (!(sum > 0)) {  // Nothing tells those that are left apart.
      for (const std::size_t i : open) weights[i] = 1;
      sum = static_cast<double>(open.size());
    }
    const double left = total;
    const auto full = [&](std::size_t i) { return left * weights[i] / sum >= heads[i].tokens; };
    const auto rest =
        std::stable_partition(open.begin(), open.end(), [&](std::size_t i) { return !full(i); });
    if (rest == open.end()) {
      for (const std::size_t i : open) parts[i] = left * weights[i] / sum;
      return parts;
    }
    for (const std::size_t i : std::span(rest, open.end())) {
      parts[i] = heads[i].tokens;
      total -= heads[i].tokens;
    }
    open.erase(rest, open.end());
  }
  return parts;
}

/// Whole tokens: each part rounded down, and one more to those that lost most, the first of equals.
std::vector<std::uint32_t> whole_tokens(std::span<const double> parts, std::uint64_t total) {
  std::vector<std::uint32_t> shares;
  std::uint64_t dealt = 0;
  for (const double part : parts) {
    shares.push_back(static_cast<std::uint32_t>(part + 1e-9));
    dealt += shares.back();
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto lost = [&](std::size_t i) { return parts[i] - shares[i]; };
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return lost(a) > lost(b) + 1e-9; });
  for (const std::size_t i : order) {
    if (dealt >= total) break;
    if (lost(i) <= 1e-9) continue;
    ++shares[i];
    ++dealt;
  }
  return shares;
}

bool is_sound(const HeadDemand& head) {
  return std::isfinite(head.stability) && head.stability >= 0;
}

}  // namespace

std::span<const NamedBudget> shipped_budgets() {
  static const std::vector<NamedBudget> named = [] {
    std::vector<NamedBudget> all;
    for (const BudgetRule& rule : rules()) all.push_back(rule.named);
    return all;
  }();
  return named;
}

Status share_budget(std::string_view rule, const Parameters& given,
                    std::span<const HeadDemand> heads, std::uint64_t total_tokens,
                    std::vector<std::uint32_t>* shares, std::string* reason) {
  const auto named = std::ranges::find(
      rules(), rule, [](const BudgetRule& shipped) { return shipped.named.name; });
  if (named == rules().end()) {
    *reason = "no budget '" + std::string(rule) + "'; there are: " + names_of(shipped_budgets());
    return Status::kBadArgument;
  }
  Parameters parameters;
  if (const Status status = settle(rule, named->named.parameters, given, &parameters, reason);
      status != Status::kOk) {
    return status;
  }
  std::uint64_t there = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    there += heads[i].tokens;
    if (is_sound(heads[i])) continue;
    *reason = "head " + std::to_string(i) + " has a statistic that is negative or not finite";
    return Status::kBadArgument;
  }
  const std::uint64_t total = std::min(total_tokens, there);
  const auto parts = fill(heads, named->weights(heads, parameters), static_cast<double>(total));
  *shares = whole_tokens(parts, total);
  return Status::kOk;
}

}  // namespace nearkv
