// Tokens with scores, and the rule by which they are ranked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

/// Better first; ties go to the lower index, on every backend.
template <typename Score>
struct ScoredToken {
  Score score;
  std::uint32_t token;

  friend bool operator<(const ScoredToken& a, const ScoredToken& b) {
    return a.score != b.score ? a.score > b.score : a.token < b.token;
  }
};

/// Leaves the `count` best, in order.
template <typename Score>
void keep_best(std::size_t count, std::vector<ScoredToken<Score>>* scored) {
  const auto middle =
      scored->begin() + static_cast<std::ptrdiff_t>(std::min(count, scored->size()));
  std::partial_sort(scored->begin(), middle, scored->end());
  scored->erase(middle, scored->end());
}

}  // namespace nearkv
