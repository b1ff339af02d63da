// The plane stage's fold: a page's digest and the query to weights and the sums that bounds are
// made of (ARITHMETIC.md section 5).
#ifndef NEARKV_HLS_PLANES_HPP_
#define NEARKV_HLS_PLANES_HPP_

#include "kernels/number.hpp"
#include "kernels/query.hpp"
#include "kernels/types.hpp"

namespace nearkv::kernels {

using PlaneWeight = ap_int<12>;  ///< |w_c| < 2^11

constexpr int kFoldLanes = 8;  ///< Channels that are folded side by side.
constexpr int kDigestLanes = kBurstBytes / 2;

/// What a page's digest is worth to a row, beside its weights.
struct FoldSums {
  std::int64_t constant;    ///< K
  std::int64_t weight_sum;  ///< W = Σ|w|
  std::int64_t signed_sum;  ///< Σ w
  std::int64_t squares;     ///< Σ w²
  std::int64_t remainder;   ///< ⌈Σ d·(128 + |centre|) / 2^12⌉
};

/// One channel of a digest against one query element.
struct Folded {
  int weight;
  int remainder;  ///< d
};

inline Folded fold_element(QueryInteger query, int m, int g) {
#pragma HLS inline
  constexpr int kFraction = NKV_PLANE_WEIGHT_SHIFT;
  constexpr int kMostFraction = 62;  // From 40 on weights are zero, and remainders 0 or 1.
  const int fraction = least_of(kFraction - largest_of(least_of(g, 16), -68), kMostFraction);
  const std::int64_t exact = (query * ap_int<5>(m)).to_int64();
  const std::int64_t half = std::int64_t{1} << (fraction - 1);
  Folded folded;
  folded.weight = static_cast<int>((exact + half) >> fraction);
  const std::int64_t error = exact - (std::int64_t{folded.weight} << fraction);
  const std::int64_t raised = (error < 0 ? -error : error) << 12;
  folded.remainder = static_cast<int>(
      (raised >> fraction) + ((raised & ((std::int64_t{1} << fraction) - 1)) != 0 ? 1 : 0));
  return folded;
}

/// Folds one page: `digest` brings its bursts, `step_exponent` is its k_step_exponent.
inline void fold_page(stream<Burst>& digest, const QueryInteger query[kRows][kMaxChannels],
                      int channels, int step_exponent, int key_exponent,
                      PlaneWeight weights[kRows][kMaxChannels], PerRow<FoldSums>* sums) {
  PerRow<FoldSums> running;
#pragma HLS array_partition variable = running.row complete
  Burst held = 0;
fold_groups:
  for (int group = 0; group < kMaxChannels / kFoldLanes; ++group) {
#pragma HLS pipeline II = 1  // Only the sums' last addition depends on the group before.
    const int first = group * kFoldLanes;
    if (first % kDigestLanes == 0 && first < channels) held = digest.read();
  fold_rows:
    for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
      FoldSums sum = group == 0 ? FoldSums{0, 0, 0, 0, 0} : running.row[row];
      for (int lane = 0; lane < kFoldLanes; ++lane) {
#pragma HLS unroll
        const int channel = first + lane;
        const ap_uint<16> stored = part_of<16>(held, channel % kDigestLanes);
        const int base = ap_int<8>(stored.range(7, 0)).to_int();
        const int m = 8 + stored.range(10, 8).to_int();
        const int delta = stored.range(15, 11).to_int();
        const int centre = NKV_CODE_BASE_STEP * base + 128;
        const Folded folded =
            fold_element(query[row][channel], m, step_exponent - delta - key_exponent + 152);
        const bool is_there = channel < channels;
        const int weight = is_there ? folded.weight : 0;
        const int remainder = is_there ? folded.remainder : 0;
        const int magnitude = weight < 0 ? -weight : weight;
        const int at_centre = weight * centre;
        const int square = magnitude * magnitude;
        weights[row][channel] = weight;
        sum.constant += at_centre;
        sum.weight_sum += magnitude;
        sum.signed_sum += weight;
        sum.squares += square;
        sum.remainder += std::int64_t{remainder} * (128 + (centre < 0 ? -centre : centre));
      }
      running.row[row] = sum;
    }
  }
  for (int row = 0; row < kRows; ++row) {
#pragma HLS unroll
    sums->row[row] = running.row[row];
    sums->row[row].remainder = (running.row[row].remainder + 4095) >> 12;
  }
}

/// The least B with 3072·B² ≥ z²·squares·4^(8 − planes), z in sixteenths; bit by bit.
inline std::int64_t likely_uncertainty(std::int64_t squares, int planes, int sixteenths) {
  using Wide = ap_uint<80>;
  const Wide wanted = Wide(ap_uint<16>(sixteenths * sixteenths)) * ap_uint<40>(squares)
                      << 2 * (8 - planes);
  if (wanted == 0) return 0;
  ap_uint<32> below = 0;
find_root:
  for (int bit = 31; bit >= 0; --bit) {
#pragma HLS pipeline II = 2  // A bit depends on those above it: compare, then keep.
    const ap_uint<32> tried = below | ap_uint<32>(1) << bit;
    if (Wide(3072) * tried * tried < wanted) below = tried;
  }
  return below.to_int64() + 1;
}

/// The radius after `planes` planes, in weight units.
inline std::int64_t radius_of(const FoldSums& sums, int planes, int sixteenths) {
  constexpr std::int64_t kTruncationSlack = 4;
  const std::int64_t cell = sums.weight_sum << (8 - planes) >> 1;
  return least_of(cell, likely_uncertainty(sums.squares, planes, sixteenths)) + sums.remainder +
         kTruncationSlack;
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_PLANES_HPP_
