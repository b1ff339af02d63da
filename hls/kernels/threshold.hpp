// The midpoint from which on a row's best tokens are read exactly.
#ifndef NEARKV_HLS_THRESHOLD_HPP_
#define NEARKV_HLS_THRESHOLD_HPP_

#include "kernels/types.hpp"

/// T(count) of each row (ARITHMETIC.md 5.3): the largest bin with at least `count` visible tokens
/// in it or above, 0 if there are fewer. `midpoints` is what `nearkv_plane_score` wrote, `visible`
/// a mask a page. `thresholds` takes a burst: 8 rows in 64 bits each.
extern "C" void nearkv_threshold(const nearkv::kernels::Burst* midpoints,
                                 const std::uint64_t* visible, int page_count, int count,
                                 nearkv::kernels::Burst* thresholds);

#endif  // NEARKV_HLS_THRESHOLD_HPP_
