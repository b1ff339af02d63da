// Which units of memory are hot: the sketch of the RTL's monitor (rtl/monitor/nkv_chmu_sketch.sv).
#ifndef NEARKV_HLS_HOTNESS_HPP_
#define NEARKV_HLS_HOTNESS_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr int kUnitBits = 22;
constexpr int kSketchRows = 4;
constexpr int kPlaceBits = 15;  ///< 32,768 counters a row.
constexpr int kCountBits = 14;

/// A unit when it became hot, and its estimate then.
struct HotUnit {
  std::uint32_t unit;
  std::uint32_t count;
};

}  // namespace nearkv::kernels

/// Counts accesses to units in four rows of counters that stay from call to call; `clear` begins
/// anew. A unit is hot at the access that takes its estimate to `threshold` (1 at least), once.
/// Estimates are never below the count, up to 2^14 − 1.
///
/// `units` holds `count` of them in 32 bits each, 16 a burst; `hot` takes as many as may become
/// hot. Returns how many did.
extern "C" int nearkv_hotness(const nearkv::kernels::Burst* units, int count, int threshold,
                              bool clear, nearkv::kernels::HotUnit* hot);

#endif  // NEARKV_HLS_HOTNESS_HPP_
