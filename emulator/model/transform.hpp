// The transform of codes (section 11.1): signs, then Hadamard transforms of blocks.
#ifndef NEARKV_MODEL_TRANSFORM_HPP_
#define NEARKV_MODEL_TRANSFORM_HPP_

#include <cstdint>
#include <span>
#include <vector>

#include "nkv_abi.h"

namespace nearkv::model {

/// Rounded to nearest, halves up, instead of down as floor_shift: value / 2^n, n >= 0.
constexpr int64_t rounded_shift(int64_t value, int n) {
  return n == 0 ? value : ((value >> (n - 1)) + 1) >> 1;
}

/// The set of the page at position `page` (in pages) of a sequence, at `run` pages a set.
constexpr int sign_set_of(uint64_t page, uint32_t run) {
  return static_cast<int>(page / run % NKV_SIGN_SETS);
}

/// A row of `channels` channels splits into blocks that are powers of two, the largest first; S is
/// the size of the last one, a power of two.
int log2_last_block(uint32_t channels);

/// T of a row: signs of the set, the exact Hadamard transform of each block, then each block but
/// the last times sqrt(S / its size) at 15 fraction bits, rounded. T Tᵗ = S, so that
/// a · b = T(a) · T(b) / S. Magnitudes stay below 2^15 times the row's channels of the input's.
std::vector<int64_t> transform(std::span<const int64_t> row, int set);

/// Tᵗ: S times the row that `transform` made `transformed` of, with 15 more fraction bits, exact.
std::vector<int64_t> transpose(std::span<const int64_t> transformed, int set);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TRANSFORM_HPP_
