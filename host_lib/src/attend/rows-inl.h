// Rows of a page as binary32, a few tokens at a time, for the kernels that compute on them.
//
// Included once per SIMD target (Google Highway's foreach_target).
#if defined(NEARKV_ATTEND_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARKV_ATTEND_ROWS_INL_H_
#undef NEARKV_ATTEND_ROWS_INL_H_
#else
#define NEARKV_ATTEND_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "page/row_source.hpp"

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Channels leave the decoder in *kernel order*, the order in which the cheapest unpacking
// instructions deliver them: per chunk of kChunk channels (then per 16), four vectors; lane l of
// vector v holds channel 16 (l / 4) + 8 (v / 2) + 2 (l % 4) + v % 2 of the chunk. Queries are put
// into the same order once, outputs are taken out of it once.
using ByteTag = hn::CappedTag<std::uint8_t, 64>;
inline constexpr std::size_t kBlock = 16;

inline std::size_t chunk_channels() { return hn::Lanes(ByteTag()); }

/// Where channel `channel` of a row of `dim` channels lies in kernel order.
inline std::size_t kernel_position(std::size_t channel, std::size_t dim) {
  const std::size_t whole = dim / chunk_channels() * chunk_channels();
  const std::size_t chunk = channel < whole ? chunk_channels() : kBlock;
  const std::size_t base = channel / chunk * chunk;
  const std::size_t inside = channel - base;
  const std::size_t vector = inside % 16 / 8 * 2 + inside % 2;
  const std::size_t lane = inside / 16 * 4 + inside % 8 / 2;
  return base + vector * (chunk / 4) + lane;
}

/// One chunk of a DELTA4 row: sign-and-mantissa bytes, nibbles, channel exponents.
template <class D8>
HWY_INLINE void decode_delta4_chunk(D8 d8, const std::uint8_t* HWY_RESTRICT sign_mantissa,
                                    const std::uint8_t* HWY_RESTRICT nibbles,
                                    const std::uint8_t* HWY_RESTRICT exponents,
                                    float* HWY_RESTRICT out) {
  const hn::Repartition<std::uint16_t, D8> d16;
  const hn::Repartition<std::uint32_t, D8> d32;
  const hn::Repartition<float, D8> df;
  const hn::Half<D8> d8_half;
  const auto pairs = hn::PromoteTo(d16, hn::LoadU(d8_half, nibbles));
  const auto nibble =
      hn::BitCast(d8, hn::And(hn::Or(pairs, hn::ShiftLeft<4>(pairs)), hn::Set(d16, 0x0F0F)));
  const auto present = hn::Ne(nibble, hn::Zero(d8));
  const auto sm = hn::IfThenElseZero(present, hn::LoadU(d8, sign_mantissa));
  const auto exponent = hn::IfThenElseZero(present, hn::Add(nibble, hn::LoadU(d8, exponents)));
  const auto sign_bit = hn::Set(d8, 0x80);
  // Shifts in 16-bit lanes move neighbours' bits only into places that the other operand fills.
  const auto shifted_right = hn::BitCast(d8, hn::ShiftRight<1>(hn::BitCast(d16, exponent)));
  const auto shifted_left = hn::BitCast(d8, hn::ShiftLeft<7>(hn::BitCast(d16, exponent)));
  const auto high = hn::Or(hn::And(sign_bit, sm), hn::AndNot(sign_bit, shifted_right));
  const auto low = hn::Or(hn::And(sign_bit, shifted_left), hn::AndNot(sign_bit, sm));
  const auto first = hn::BitCast(d32, hn::InterleaveLower(d8, low, high));
  const auto second = hn::BitCast(d32, hn::InterleaveUpper(d8, low, high));
  const auto odd = hn::Set(d32, 0xFFFF0000U);
  const std::size_t lanes = hn::Lanes(df);
  hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(first)), df, out);
  hn::Store(hn::BitCast(df, hn::And(first, odd)), df, out + lanes);
  hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(second)), df, out + 2 * lanes);
  hn::Store(hn::BitCast(df, hn::And(second, odd)), df, out + 3 * lanes);
}

/// One DELTA4 row in kernel order; `out` is aligned for vectors.
HWY_INLINE void decode_delta4_row(const std::uint8_t* HWY_RESTRICT row,
                                  const std::uint8_t* HWY_RESTRICT exponents, std::size_t dim,
                                  float* HWY_RESTRICT out) {
  const ByteTag d8;
  const hn::FixedTag<std::uint8_t, kBlock> d8_block;
  const std::size_t chunk = chunk_channels();
  std::size_t channel = 0;
  for (; channel + chunk <= dim; channel += chunk) {
    decode_delta4_chunk(d8, row + channel, row + dim + channel / 2, exponents + channel,
                        out + channel);
  }
  for (; channel < dim; channel += kBlock) {
    decode_delta4_chunk(d8_block, row + channel, row + dim + channel / 2, exponents + channel,
                        out + channel);
  }
}

/// Stores elements, and zero for each that is not finite or is subnormal. `out` need not be
/// aligned.
template <class D32>
HWY_INLINE void store_normal(D32 d32, hn::VFromD<D32> bits, float* HWY_RESTRICT out) {
  const hn::RebindToFloat<D32> df;
  const auto exponent_mask = hn::Set(d32, 0x7F800000U);
  const auto exponent = hn::And(bits, exponent_mask);
  const auto special = hn::Or(hn::Eq(exponent, hn::Zero(d32)), hn::Eq(exponent, exponent_mask));
  hn::StoreU(hn::BitCast(df, hn::IfThenZeroElse(special, bits)), df, out);
}

#if HWY_TARGET == HWY_AVX2
/// 32 channels of plain bf16 in kernel order.
HWY_INLINE void decode_bf16_chunk(const std::uint8_t* HWY_RESTRICT row, float* HWY_RESTRICT out) {
  const hn::FixedTag<std::uint32_t, 8> d32;
  const auto a = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(row));
  const auto b = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(row + 2 * kBlock));
  const auto first = hn::ConcatLowerLower(d32, b, a);
  const auto second = hn::ConcatUpperUpper(d32, b, a);
  const auto odd = hn::Set(d32, 0xFFFF0000U);
  store_normal(d32, hn::ShiftLeft<16>(first), out);
  store_normal(d32, hn::And(first, odd), out + 8);
  store_normal(d32, hn::ShiftLeft<16>(second), out + 16);
  store_normal(d32, hn::And(second, odd), out + 24);
}
#endif

/// One row of plain bf16 in kernel order.
HWY_INLINE void decode_bf16_row(const std::uint8_t* HWY_RESTRICT row, std::size_t dim,
                                float* HWY_RESTRICT out) {
  const hn::FixedTag<std::uint32_t, 4> d32;
  const std::size_t whole = dim / chunk_channels() * chunk_channels();
  std::size_t channel = 0;
#if HWY_TARGET == HWY_AVX2
  for (; channel < whole; channel += 2 * kBlock) {
    decode_bf16_chunk(row + 2 * channel, out + channel);
  }
#endif
  for (; channel < dim; channel += kBlock) {
    const std::size_t chunk = channel < whole ? chunk_channels() : kBlock;
    float* const to = out + channel / chunk * chunk + channel % chunk / 4;
    for (std::size_t half = 0; half < 2; ++half) {
      const auto pairs =
          hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(row + 2 * channel + half * kBlock));
      store_normal(d32, hn::ShiftLeft<16>(pairs), to + 2 * half * (chunk / 4));
      store_normal(d32, hn::And(pairs, hn::Set(d32, 0xFFFF0000U)),
                   to + (2 * half + 1) * (chunk / 4));
    }
  }
}

/// Rows [first, first + count) of a tensor in kernel order, one after the other, `dim` floats each.
/// Elements that are not finite or are subnormal come out as zero.
HWY_INLINE void decode_rows(const RowSource& source, std::size_t first, std::size_t count,
                            float* HWY_RESTRICT out) {
  if (source.is_delta4()) {
    for (std::size_t token = first; token < first + count; ++token, out += source.dim) {
      decode_delta4_row(source.row(token), source.exponents, source.dim, out);
    }
    return;
  }
  if (source.dtype == NKV_DTYPE_BF16) {
    for (std::size_t token = first; token < first + count; ++token, out += source.dim) {
      decode_bf16_row(source.row(token), source.dim, out);
    }
    return;
  }
  // Other types are decoded channel by channel: they serve 8-bit and fp16 models.
  HWY_ALIGN float natural[NKV_MAX_HEAD_DIM];
  for (std::size_t token = first; token < first + count; ++token, out += source.dim) {
    source.decode(token, natural);
    for (std::size_t channel = 0; channel < source.dim; ++channel) {
      out[kernel_position(channel, source.dim)] = natural[channel];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#endif  // NEARKV_ATTEND_ROWS_INL_H_
