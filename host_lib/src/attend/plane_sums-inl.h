// Integer dot products of plane bits with weights.
//
// Included once per SIMD target (Google Highway's foreach_target).
#if defined(NEARKV_ATTEND_PLANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARKV_ATTEND_PLANE_SUMS_INL_H_
#undef NEARKV_ATTEND_PLANE_SUMS_INL_H_
#else
#define NEARKV_ATTEND_PLANE_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "attend/plane_bits.hpp"
#include "nkv_abi.h"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Codes' top bits of one token, as 16-bit lanes; the channels of `dim` fill whole 16-lane blocks.
HWY_INLINE void token_codes(const PlaneBits& bits, unsigned planes, std::size_t token,
                            std::size_t dim, std::int16_t* HWY_RESTRICT codes) {
  const hn::CappedTag<std::int16_t, 16> d;
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    auto code = hn::Zero(d);
    for (unsigned plane = 0; plane < planes; ++plane) {
      // LoadMaskBits may read 8 bytes; rows end before the page does.
      const auto mask = hn::LoadMaskBits(d, bits.plane[plane] + token * bits.row_bytes + c / 8);
      const auto value = hn::Set(d, static_cast<std::int16_t>(1 << (planes - 1 - plane)));
      code = hn::Or(code, hn::IfThenElseZero(mask, value));
    }
    hn::Store(code, d, codes + c);
  }
}

/// Weighted sum of one token's codes for one row.
HWY_INLINE std::int32_t code_sum(const std::int16_t* HWY_RESTRICT codes,
                                 const std::int16_t* HWY_RESTRICT weights, std::size_t dim) {
  const hn::CappedTag<std::int16_t, 16> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  auto even = hn::Zero(d32);
  auto odd = hn::Zero(d32);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d16)) {
    even = hn::ReorderWidenMulAccumulate(d32, hn::Load(d16, codes + c), hn::LoadU(d16, weights + c),
                                         even, odd);
  }
  return hn::GetLane(hn::SumOfLanes(d32, hn::Add(even, odd)));
}

/// What plane_sums_vnni gives, for any dimension on any machine.
HWY_INLINE void plane_sums_generic(const PlaneBits& bits, unsigned planes,
                                   const std::int16_t* HWY_RESTRICT weights, std::size_t rows,
                                   std::size_t dim, std::uint64_t wanted,
                                   std::int32_t* HWY_RESTRICT sums) {
  HWY_ALIGN std::int16_t codes[NKV_MAX_HEAD_DIM];
  for (std::uint64_t left = wanted; left != 0; left &= left - 1) {
    const auto token = static_cast<std::size_t>(std::countr_zero(left));
    token_codes(bits, planes, token, dim, codes);
    for (std::size_t row = 0; row < rows; ++row) {
      sums[row * NKV_PAGE_TOKENS + token] = code_sum(codes, weights + row * dim, dim);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#endif  // NEARKV_ATTEND_PLANE_SUMS_INL_H_
