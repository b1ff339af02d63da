// How many pages a worker takes at a time.
#pragma once

#include <algorithm>
#include <cstddef>

namespace nearkv {

/// Pages of which a few rows are read.
inline constexpr std::size_t kRowPagesAtATime = 8;

/// Pages of a list whose rows are all read. Long runs are read at a higher rate, since two members
/// seldom read beside one another, and a page that one fetches ahead is its own; short ones let all
/// members finish together.
[[nodiscard]] constexpr std::size_t whole_pages_at_a_time(std::size_t pages, unsigned members) {
  constexpr std::size_t kMost = 128;
  constexpr std::size_t kRunsOfAMember = 12;
  return std::clamp(pages / (members * kRunsOfAMember), kRowPagesAtATime, kMost);
}

}  // namespace nearkv
