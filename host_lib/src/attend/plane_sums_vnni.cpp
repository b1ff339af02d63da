// Compiled for AVX-512 with VNNI whatever the rest of the library is compiled for, and entered only
// where the processor has it. Includes nothing whose inline functions other files might share.
#include "attend/plane_bits.hpp"

#if defined(__AVX512VNNI__)

#include <immintrin.h>

namespace nearkv {
namespace {

/// 4 channels' bits of 16 tokens become 16 dwords of 4 bytes: entry i of the table has `value` in
/// byte b where i has bit b.
inline __m512i nibble_table(std::uint8_t value) {
  alignas(64) std::uint32_t table[16];
  for (std::uint32_t i = 0; i < 16; ++i) {
    table[i] = ((i & 1) | (i >> 1 & 1) << 8 | (i >> 2 & 1) << 16 | (i >> 3 & 1) << 24) * value;
  }
  return _mm512_load_si512(table);
}

constexpr std::size_t kGroup = 16;  // Tokens whose sums fill a vector.
constexpr std::size_t kMaxWords = NKV_MAX_HEAD_DIM / 32;

/// Bits of 32 channels (dword `word` of each token's row) of 16 tokens, `offsets` being their
/// rows'.
inline __m512i gather_word(const std::uint8_t* __restrict rows, __m512i offsets, std::size_t word) {
  return _mm512_i32gather_epi32(offsets, rows + 4 * word, 1);
}

/// All words of 16 neighbouring tokens' rows. Rows of 128 channels, which are common, are
/// transposed instead of gathered: lane 4 i + j then holds token 4 j + i.
inline void load_words(const std::uint8_t* __restrict rows, std::size_t row_bytes,
                       __m512i* __restrict words) {
  if (row_bytes != 16) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i offsets =
        _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(row_bytes)));
    for (std::size_t word = 0; word < row_bytes / 4; ++word) {
      words[word] = gather_word(rows, offsets, word);
    }
    return;
  }
  const __m512i a = _mm512_loadu_si512(rows);
  const __m512i b = _mm512_loadu_si512(rows + 64);
  const __m512i c = _mm512_loadu_si512(rows + 128);
  const __m512i d = _mm512_loadu_si512(rows + 192);
  const __m512i ab_low = _mm512_unpacklo_epi32(a, b);
  const __m512i ab_high = _mm512_unpackhi_epi32(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi32(c, d);
  const __m512i cd_high = _mm512_unpackhi_epi32(c, d);
  words[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  words[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  words[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  words[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

/// Sums in the order of load_words as sums in token order.
inline __m512i in_token_order(__m512i sums, std::size_t row_bytes) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return row_bytes != 16 ? sums : _mm512_permutexvar_epi32(order, sums);
}

/// A row block's weights: high and low bytes, four channels' per dword, [rows][dim / 4].
struct SplitWeights {
  const std::int32_t* high;
  const std::int32_t* low;
  std::size_t dim;
};

/// Sums of kRows rows for 16 tokens, whose planes' words are given. Weights are split into a signed
/// high byte and a low nibble, w = 16 * high + low, so that byte dot products can take them.
template <std::size_t kRows, unsigned kPlanes>
inline void sum_group(const __m512i (*__restrict words)[kMaxWords],
                      const __m512i* __restrict tables, const SplitWeights& weights,
                      __m512i* __restrict sums) {
  __m512i high_sums[kRows];
  __m512i low_sums[kRows];
  for (std::size_t row = 0; row < kRows; ++row) {
    high_sums[row] = low_sums[row] = _mm512_setzero_si512();
  }
  for (std::size_t word = 0; word < weights.dim / 32; ++word) {
    for (std::size_t nibble = 0; nibble < 8; ++nibble) {
      __m512i codes = _mm512_setzero_si512();
      for (unsigned plane = 0; plane < kPlanes; ++plane) {
        // The permutation looks at the low four bits of each index only.
        const __m512i index =
            _mm512_srli_epi32(words[plane][word], static_cast<unsigned>(4 * nibble));
        codes = _mm512_or_si512(codes, _mm512_permutexvar_epi32(index, tables[plane]));
      }
      for (std::size_t row = 0; row < kRows; ++row) {
        const std::size_t at = row * weights.dim / 4 + word * 8 + nibble;
        high_sums[row] =
            _mm512_dpbusd_epi32(high_sums[row], codes, _mm512_set1_epi32(weights.high[at]));
        low_sums[row] =
            _mm512_dpbusd_epi32(low_sums[row], codes, _mm512_set1_epi32(weights.low[at]));
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    sums[row] = _mm512_add_epi32(_mm512_slli_epi32(high_sums[row], 4), low_sums[row]);
  }
}

template <std::size_t kRows, unsigned kPlanes>
inline void sum_all_tokens(const PlaneBits& bits, const __m512i* __restrict tables,
                           const SplitWeights& weights, std::int32_t* __restrict sums) {
  for (std::size_t token = 0; token < NKV_PAGE_TOKENS; token += kGroup) {
    __m512i words[kPlanes][kMaxWords];
    for (unsigned plane = 0; plane < kPlanes; ++plane) {
      load_words(bits.plane[plane] + token * bits.row_bytes, bits.row_bytes, words[plane]);
    }
    __m512i group[kRows];
    sum_group<kRows, kPlanes>(words, tables, weights, group);
    for (std::size_t row = 0; row < kRows; ++row) {
      _mm512_storeu_si512(sums + row * NKV_PAGE_TOKENS + token,
                          in_token_order(group[row], bits.row_bytes));
    }
  }
}

/// As sum_all_tokens for the tokens of `wanted`, which are brought together before and spread
/// after.
template <std::size_t kRows, unsigned kPlanes>
inline void sum_tokens(const PlaneBits& bits, const __m512i* __restrict tables,
                       const SplitWeights& weights, std::uint64_t wanted,
                       std::int32_t* __restrict sums) {
  alignas(64) std::int32_t offsets[NKV_PAGE_TOKENS + kGroup] = {};
  alignas(64) std::int32_t packed[kRows][NKV_PAGE_TOKENS + kGroup];
  std::size_t count = 0;
  for (std::uint64_t left = wanted; left != 0; left &= left - 1) {
    offsets[count++] = __builtin_ctzll(left) * static_cast<std::int32_t>(bits.row_bytes);
  }
  for (std::size_t i = 0; i < count; i += kGroup) {
    const __m512i from = _mm512_load_si512(offsets + i);
    __m512i words[kPlanes][kMaxWords];
    for (unsigned plane = 0; plane < kPlanes; ++plane) {
      for (std::size_t word = 0; word < weights.dim / 32; ++word) {
        words[plane][word] = gather_word(bits.plane[plane], from, word);
      }
    }
    __m512i group[kRows];
    sum_group<kRows, kPlanes>(words, tables, weights, group);
    for (std::size_t row = 0; row < kRows; ++row) _mm512_store_si512(packed[row] + i, group[row]);
  }
  std::size_t taken = 0;
  for (std::size_t token = 0; token < NKV_PAGE_TOKENS; token += kGroup) {
    const auto here = static_cast<__mmask16>(wanted >> token);
    for (std::size_t row = 0; row < kRows; ++row) {
      _mm512_storeu_si512(sums + row * NKV_PAGE_TOKENS + token,
                          _mm512_maskz_expandloadu_epi32(here, packed[row] + taken));
    }
    taken += static_cast<std::size_t>(__builtin_popcount(here));
  }
}

template <std::size_t kRows, unsigned kPlanes>
inline void plane_sums_rows(const PlaneBits& bits, const SplitWeights& weights,
                            std::uint64_t wanted, std::int32_t* __restrict sums) {
  __m512i tables[kPlanes];
  for (unsigned plane = 0; plane < kPlanes; ++plane) {
    tables[plane] = nibble_table(static_cast<std::uint8_t>(1U << (kPlanes - 1 - plane)));
  }
  if (__builtin_popcountll(wanted) > static_cast<int>(NKV_PAGE_TOKENS - kGroup)) {
    sum_all_tokens<kRows, kPlanes>(bits, tables, weights, sums);
  } else {
    sum_tokens<kRows, kPlanes>(bits, tables, weights, wanted, sums);
  }
}

template <unsigned kPlanes>
void plane_sums_of(const PlaneBits& bits, const std::int16_t* __restrict weights, std::size_t rows,
                   std::size_t dim, std::uint64_t wanted, std::int32_t* __restrict sums) {
  constexpr std::size_t kRowBlock = 4;
  alignas(64) std::int8_t high[kRowBlock * NKV_MAX_HEAD_DIM];
  alignas(64) std::int8_t low[kRowBlock * NKV_MAX_HEAD_DIM];
  for (std::size_t row = 0; row < rows; row += kRowBlock) {
    const std::size_t count = rows - row < kRowBlock ? rows - row : kRowBlock;
    for (std::size_t i = 0; i < count * dim; ++i) {
      high[i] = static_cast<std::int8_t>(weights[row * dim + i] >> 4);
      low[i] = static_cast<std::int8_t>(weights[row * dim + i] & 15);
    }
    const SplitWeights split = {reinterpret_cast<const std::int32_t*>(high),
                                reinterpret_cast<const std::int32_t*>(low), dim};
    std::int32_t* const out = sums + row * NKV_PAGE_TOKENS;
    switch (count) {
      case 4:
        plane_sums_rows<4, kPlanes>(bits, split, wanted, out);
        break;
      case 3:
        plane_sums_rows<3, kPlanes>(bits, split, wanted, out);
        break;
      case 2:
        plane_sums_rows<2, kPlanes>(bits, split, wanted, out);
        break;
      default:
        plane_sums_rows<1, kPlanes>(bits, split, wanted, out);
    }
  }
}

}  // namespace

bool has_plane_sums_vnni(std::size_t dim) {
  return dim % 32 == 0 && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bw");
}

void plane_sums_vnni(const PlaneBits& bits, unsigned planes, const std::int16_t* weights,
                     std::size_t rows, std::size_t dim, std::uint64_t wanted, std::int32_t* sums) {
  switch (planes) {
    case 1:
      return plane_sums_of<1>(bits, weights, rows, dim, wanted, sums);
    case 2:
      return plane_sums_of<2>(bits, weights, rows, dim, wanted, sums);
    case 3:
      return plane_sums_of<3>(bits, weights, rows, dim, wanted, sums);
    default:
      return plane_sums_of<4>(bits, weights, rows, dim, wanted, sums);
  }
}

}  // namespace nearkv

#else

namespace nearkv {

bool has_plane_sums_vnni(std::size_t /*dim*/) { return false; }

void plane_sums_vnni(const PlaneBits& /*bits*/, unsigned /*planes*/,
                     const std::int16_t* /*weights*/, std::size_t /*rows*/, std::size_t /*dim*/,
                     std::uint64_t /*wanted*/, std::int32_t* /*sums*/) {}

}  // namespace nearkv

#endif
