#include "page/encode_kernels.hpp"

#include <cmath>
#include <cstring>

#include "nkv_abi.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "page/encode_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
constexpr std::size_t kTokens = NKV_PAGE_TOKENS;

using PatternTag = hn::CappedTag<std::uint16_t, 16>;

/// bf16 elements from channel `c` on; rows may start at any byte.
HWY_INLINE hn::Vec<PatternTag> load_patterns(const std::uint8_t* HWY_RESTRICT row, std::size_t c) {
  const PatternTag d;
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, PatternTag>(), row + 2 * c));
}

std::uint64_t load_bf16_target(const std::uint8_t* HWY_RESTRICT source, std::size_t stride_bytes,
                               std::size_t dim, float* HWY_RESTRICT rows) {
  const PatternTag d;
  const hn::Half<PatternTag> d_half;
  const hn::Repartition<std::uint32_t, PatternTag> d32;
  const hn::Repartition<float, PatternTag> df;
  const auto exponent_mask = hn::Set(d, 0x7F80);
  std::uint64_t nonfinite = 0;
  for (std::size_t t = 0; t < kTokens; ++t, source += stride_bytes, rows += dim) {
    bool all_finite = true;
    for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
      const auto bits = load_patterns(source, c);
      const auto exponent = hn::And(bits, exponent_mask);
      const auto special = hn::Eq(exponent, exponent_mask);
      all_finite &= hn::AllFalse(d, special);
      const auto usable = hn::IfThenZeroElse(hn::Or(special, hn::Eq(exponent, hn::Zero(d))), bits);
      const auto low = hn::PromoteTo(d32, hn::LowerHalf(d_half, usable));
      const auto high = hn::PromoteTo(d32, hn::UpperHalf(d_half, usable));
      hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(low)), df, rows + c);
      hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(high)), df, rows + c + hn::Lanes(df));
    }
    if (!all_finite) nonfinite |= std::uint64_t{1} << t;
  }
  return nonfinite;
}

void channel_ranges_target(const float* HWY_RESTRICT rows, std::size_t dim,
                           float* HWY_RESTRICT lowest, float* HWY_RESTRICT highest,
                           float* HWY_RESTRICT magnitude) {
  const FloatTag d;
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    auto low = hn::LoadU(d, rows + c);
    auto high = low;
    for (std::size_t t = 1; t < kTokens; ++t) {
      const auto value = hn::LoadU(d, rows + t * dim + c);
      low = hn::Min(low, value);
      high = hn::Max(high, value);
    }
    hn::StoreU(low, d, lowest + c);
    hn::StoreU(high, d, highest + c);
    hn::StoreU(hn::Max(hn::Abs(low), hn::Abs(high)), d, magnitude + c);
  }
}

/// Codes of one row. The quotient of these short significands never rounds up to a whole number
/// that it does not reach; only an underflow to -0 needs care.
HWY_INLINE void row_codes(const float* HWY_RESTRICT row, std::size_t dim,
                          const float* HWY_RESTRICT step, const std::int32_t* HWY_RESTRICT base,
                          std::uint8_t* HWY_RESTRICT codes) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<std::uint8_t, FloatTag> d8;
  const auto zero = hn::Zero(d);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto value = hn::LoadU(d, row + c);
    const auto cell = hn::Floor(hn::Div(value, hn::LoadU(d, step + c)));
    const auto negative = hn::Lt(value, zero);
    const auto index = hn::IfThenElse(negative, hn::Min(cell, hn::Set(d, -1.0F)), cell);
    const auto code = hn::Sub(hn::ConvertTo(di, index), hn::LoadU(di, base + c));
    hn::StoreU(hn::DemoteTo(d8, code), d8, codes + c);
  }
}

void pack_planes_target(const float* HWY_RESTRICT rows, std::size_t dim,
                        const float* HWY_RESTRICT step, const std::int32_t* HWY_RESTRICT base,
                        std::uint8_t* const planes[4]) {
  const hn::CappedTag<std::uint8_t, 64> d8;
  const hn::FixedTag<std::uint8_t, 16> d8_block;
  HWY_ALIGN std::uint8_t codes[NKV_MAX_HEAD_DIM];
  // StoreMaskBits may write past a short mask; this holds the spill.
  std::uint8_t bits[NKV_MAX_HEAD_DIM / 8 + 8];
  const std::size_t row_bytes = dim / 8;
  for (std::size_t t = 0; t < kTokens; ++t) {
    row_codes(rows + t * dim, dim, step, base, codes);
    for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
      const auto bit = static_cast<std::uint8_t>(0x80U >> plane);
      std::size_t c = 0;
      for (; c + hn::Lanes(d8) <= dim; c += hn::Lanes(d8)) {
        hn::StoreMaskBits(d8, hn::TestBit(hn::Load(d8, codes + c), hn::Set(d8, bit)), bits + c / 8);
      }
      for (; c < dim; c += 16) {
        hn::StoreMaskBits(d8_block,
                          hn::TestBit(hn::Load(d8_block, codes + c), hn::Set(d8_block, bit)),
                          bits + c / 8);
      }
      std::memcpy(planes[plane] + t * row_bytes, bits, row_bytes);
    }
  }
}

void pack_delta4_target(const std::uint8_t* HWY_RESTRICT source, std::size_t stride_bytes,
                        std::size_t dim, const std::uint8_t* HWY_RESTRICT exponents,
                        std::uint8_t* HWY_RESTRICT out, std::uint16_t* HWY_RESTRICT exceptions) {
  const PatternTag d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const hn::FixedTag<std::uint16_t, 8> d_pairs;
  const hn::Repartition<std::uint8_t, decltype(d_pairs)> d8_pairs;
  const hn::Rebind<std::uint8_t, decltype(d_pairs)> d8_packed;
  const auto sixteen = hn::Set(di, 16);
  HWY_ALIGN std::uint8_t nibbles[NKV_MAX_HEAD_DIM];
  for (std::size_t t = 0; t < kTokens; ++t, source += stride_bytes, out += dim + dim / 2) {
    std::size_t count = 0;
    for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
      const auto bits = load_patterns(source, c);
      const auto exponent = hn::And(hn::ShiftRight<7>(bits), hn::Set(d, 0xFF));
      const auto nibble = hn::Sub(hn::BitCast(di, exponent),
                                  hn::BitCast(di, hn::PromoteTo(d, hn::LoadU(d8, exponents + c))));
      const auto held = hn::And(hn::Gt(nibble, hn::Zero(di)), hn::Gt(sixteen, nibble));
      const auto is_zero = hn::Eq(hn::BitCast(di, hn::ShiftLeft<1>(bits)), hn::Zero(di));
      count += hn::CountTrue(di, hn::Not(hn::Or(held, is_zero)));
      const auto sign = hn::And(hn::ShiftRight<8>(bits), hn::Set(d, 0x80));
      const auto mantissa = hn::And(bits, hn::Set(d, 0x7F));
      // Zeros keep their sign; what an exception stands for leaves nothing here.
      const auto kept = hn::IfThenElseZero(hn::Or(held, is_zero), hn::BitCast(di, sign));
      const auto fraction = hn::IfThenElseZero(held, hn::BitCast(di, mantissa));
      hn::StoreU(hn::DemoteTo(d8, hn::Or(kept, fraction)), d8, out + c);
      hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(held, nibble)), d8, nibbles + c);
    }
    exceptions[t] = static_cast<std::uint16_t>(count);
    for (std::size_t c = 0; c < dim; c += 16) {
      const auto pair = hn::BitCast(d_pairs, hn::Load(d8_pairs, nibbles + c));
      const auto byte = hn::And(hn::Or(pair, hn::ShiftRight<4>(pair)), hn::Set(d_pairs, 0xFF));
      hn::StoreU(
          hn::DemoteTo(d8_packed, hn::BitCast(hn::RebindToSigned<decltype(d_pairs)>(), byte)),
          d8_packed, out + dim + c / 2);
    }
  }
}

void value_statistics_target(const float* HWY_RESTRICT rows, std::size_t stride, std::size_t dim,
                             int exponent, std::int32_t* HWY_RESTRICT sum,
                             std::int64_t* HWY_RESTRICT numerator) {
  const FloatTag d;
  const IntTag di;
  const hn::RepartitionToWide<IntTag> d64;
  // 2^(150 - exponent) may not be a float; its two factors are, and neither product underflows
  // unless the result is below one.
  const int half = (150 - exponent) / 2;
  const auto first = hn::Set(d, std::ldexp(1.0F, half));
  const auto second = hn::Set(d, std::ldexp(1.0F, 150 - exponent - half));
  std::int64_t squares = 0;
  std::int64_t square_of_sums = 0;
  HWY_ALIGN std::int32_t coarse_sums[16];
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    auto total = hn::Zero(di);
    auto coarse_total = hn::Zero(di);
    auto even = hn::Zero(d64);
    auto odd = hn::Zero(d64);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto scaled = hn::Mul(hn::Mul(hn::LoadU(d, rows + t * stride + c), first), second);
      const auto aligned = hn::ConvertTo(di, scaled);  // Truncates.
      const auto coarse = hn::ShiftRight<9>(aligned);
      total = hn::Add(total, aligned);
      coarse_total = hn::Add(coarse_total, coarse);
      const auto neighbour = hn::BitCast(di, hn::ShiftRight<32>(hn::BitCast(d64, coarse)));
      even = hn::Add(even, hn::MulEven(coarse, coarse));
      odd = hn::Add(odd, hn::MulEven(neighbour, neighbour));
    }
    hn::StoreU(total, di, sum + c);
    squares += hn::GetLane(hn::SumOfLanes(d64, hn::Add(even, odd)));
    hn::Store(coarse_total, di, coarse_sums);
    for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
      square_of_sums += std::int64_t{coarse_sums[lane]} * coarse_sums[lane];
    }
  }
  *numerator = static_cast<std::int64_t>(kTokens) * squares - square_of_sums;
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(load_bf16_target);
HWY_EXPORT(channel_ranges_target);
HWY_EXPORT(pack_planes_target);
HWY_EXPORT(pack_delta4_target);
HWY_EXPORT(value_statistics_target);

std::uint64_t load_bf16(const std::uint8_t* source, std::size_t stride_bytes, std::size_t dim,
                        float* rows) {
  return HWY_DYNAMIC_DISPATCH(load_bf16_target)(source, stride_bytes, dim, rows);
}

void channel_ranges(const float* rows, std::size_t dim, float* lowest, float* highest,
                    float* magnitude) {
  HWY_DYNAMIC_DISPATCH(channel_ranges_target)(rows, dim, lowest, highest, magnitude);
}

void pack_planes(const float* rows, std::size_t dim, const float* step, const std::int32_t* base,
                 std::uint8_t* const planes[4]) {
  HWY_DYNAMIC_DISPATCH(pack_planes_target)(rows, dim, step, base, planes);
}

void pack_delta4(const std::uint8_t* source, std::size_t stride_bytes, std::size_t dim,
                 const std::uint8_t* exponents, std::uint8_t* out, std::uint16_t* exceptions) {
  HWY_DYNAMIC_DISPATCH(pack_delta4_target)
  (source, stride_bytes, dim, exponents, out, exceptions);
}

void value_statistics(const float* rows, std::size_t stride, std::size_t dim, int exponent,
                      std::int32_t* sum, std::int64_t* numerator) {
  HWY_DYNAMIC_DISPATCH(value_statistics_target)(rows, stride, dim, exponent, sum, numerator);
}

}  // namespace nearkv
#endif  // HWY_ONCE
