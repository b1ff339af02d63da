// retain: tokens that a budget has no room for are demoted before they are let go.
//
// Of each (layer, KV head) the protected tokens stay (sinks, the newest, and those that a user or a
// fork holds), then the best others, by token or by page; the next best are demoted: kept in a
// colder form. What is demoted may come back when a query asks for it, so that a budget limits what
// is read and held close, not what can be known. Only where a caller really lets absent tokens go
// is something lost.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "nearkv/retention.hpp"

namespace nearkv {
namespace {

/// Tokens that stay or go together.
struct Group {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  double worth = 0;
  bool is_protected = false;
};

std::vector<Group> groups_of(std::span<const float> worth, const RetentionBudget& budget,
                             std::span<const std::uint32_t> pinned) {
  const std::size_t tokens = worth.size();
  std::vector<Group> groups;
  groups.reserve(tokens / budget.grain + 1);
  for (std::size_t first = 0; first < tokens; first += budget.grain) {
    const std::size_t end = std::min<std::size_t>(tokens, first + budget.grain);
    Group group{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(end - first)};
    for (std::size_t i = first; i < end; ++i) group.worth += worth[i];
    group.worth /= group.count;
    group.is_protected = first < budget.sinks || end + budget.recent > tokens;
    groups.push_back(group);
  }
  for (const std::uint32_t token : pinned) groups[token / budget.grain].is_protected = true;
  return groups;
}

}  // namespace

Status retain(std::span<const float> worth, const RetentionBudget& budget,
              std::span<const std::uint32_t> pinned, Retained* retained) {
  if (budget.grain == 0) return Status::kBadArgument;
  for (const float one : worth) {
    if (std::isnan(one)) return Status::kBadArgument;
  }
  for (const std::uint32_t token : pinned) {
    if (token >= worth.size()) return Status::kBadArgument;
  }
  std::vector<Group> groups = groups_of(worth, budget, pinned);
  std::ranges::stable_sort(groups, [](const Group& a, const Group& b) {
    return a.is_protected != b.is_protected ? a.is_protected : a.worth > b.worth;
  });
  Retained kept;
  kept.tokens.assign(worth.size(), Kept::kAbsent);
  const std::uint64_t most = std::uint64_t{budget.exact_tokens} + budget.demoted_tokens;
  Kept part = Kept::kExact;
  for (const Group& group : groups) {
    const std::uint64_t exact = std::uint64_t{kept.exact} + group.count;
    if (group.is_protected) {
      kept.beyond_budget = static_cast<std::uint32_t>(
          std::max<std::uint64_t>(exact, budget.exact_tokens) - budget.exact_tokens);
    } else if (part == Kept::kExact && exact > budget.exact_tokens) {
      part = Kept::kDemoted;
    }
    if (part == Kept::kDemoted && exact + kept.demoted > most) part = Kept::kAbsent;
    std::fill_n(kept.tokens.begin() + group.first, group.count, part);
    if (part == Kept::kExact) kept.exact += group.count;
    if (part == Kept::kDemoted) kept.demoted += group.count;
  }
  *retained = std::move(kept);
  return Status::kOk;
}

}  // namespace nearkv
