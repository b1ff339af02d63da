// How many pages a worker takes at a time.
#pragma once

#include <cstddef>

namespace nearkv {

/// Pages whose rows are read.
inline constexpr std::size_t kRowPagesAtATime = 8;
/// Pages of which planes, sums or statistics are read: less of each.
inline constexpr std::size_t kPlanePagesAtATime = 16;

}  // namespace nearkv
