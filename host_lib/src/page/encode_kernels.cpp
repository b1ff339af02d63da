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
constexpr std::size_t kTokens = NKV_PAGE_TOKENS;

using PatternTag = hn::CappedTag<std::uint16_t, 16>;

/// bf16 elements from channel `c` on; rows may start at any byte.
HWY_INLINE hn::Vec<PatternTag> load_patterns(const std::uint8_t* HWY_RESTRICT row, std::size_t c) {
  const PatternTag d;
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, PatternTag>(), row + 2 * c));
}

std::uint64_t load_bf16_target(const std::uint8_t* HWY_RESTRICT source, std::size_t stride_bytes,
                               std::size_t tokens, std::size_t dim, float* HWY_RESTRICT rows) {
  const PatternTag d;
  const hn::Half<PatternTag> d_half;
  const hn::Repartition<std::uint32_t, PatternTag> d32;
  const hn::Repartition<float, PatternTag> df;
  const auto exponent_mask = hn::Set(d, 0x7F80);
  std::uint64_t nonfinite = 0;
  for (std::size_t t = 0; t < tokens; ++t, source += stride_bytes, rows += dim) {
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

void channel_magnitudes_target(const float* HWY_RESTRICT rows, std::size_t tokens, std::size_t dim,
                               float* HWY_RESTRICT magnitude) {
  const FloatTag d;
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    auto largest = hn::Zero(d);
    for (std::size_t t = 0; t < tokens; ++t) {
      largest = hn::Max(largest, hn::Abs(hn::LoadU(d, rows + t * dim + c)));
    }
    hn::StoreU(largest, d, magnitude + c);
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

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(load_bf16_target);
HWY_EXPORT(channel_magnitudes_target);
HWY_EXPORT(pack_delta4_target);

std::uint64_t load_bf16(const std::uint8_t* source, std::size_t stride_bytes, std::size_t tokens,
                        std::size_t dim, float* rows) {
  return HWY_DYNAMIC_DISPATCH(load_bf16_target)(source, stride_bytes, tokens, dim, rows);
}

void channel_magnitudes(const float* rows, std::size_t tokens, std::size_t dim, float* magnitude) {
  HWY_DYNAMIC_DISPATCH(channel_magnitudes_target)(rows, tokens, dim, magnitude);
}

void pack_delta4(const std::uint8_t* source, std::size_t stride_bytes, std::size_t dim,
                 const std::uint8_t* exponents, std::uint8_t* out, std::uint16_t* exceptions) {
  HWY_DYNAMIC_DISPATCH(pack_delta4_target)
  (source, stride_bytes, dim, exponents, out, exceptions);
}

}  // namespace nearkv
#endif  // HWY_ONCE
