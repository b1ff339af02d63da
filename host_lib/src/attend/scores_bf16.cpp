// Compiled for AVX-512 with BF16 whatever the rest of the library is compiled for, and entered only
// where the processor has it. Includes nothing whose inline functions other files might share.
#include "attend/scores_bf16.hpp"

#if defined(__AVX512BF16__)

#include <immintrin.h>

namespace nearkv {
namespace {

constexpr std::size_t kChunk = kBf16ScoreChannels;  // Channels that are decoded together.
constexpr std::size_t kHalf = kChunk / 2;
constexpr std::size_t kTokenBlock = 4;  // Tokens and rows whose sums stay in registers.
constexpr std::size_t kRowBlock = 4;

/// A chunk of a row: channels 0-7 of every 16, then channels 8-15 of every 16.
struct Chunk {
  __m512i first;
  __m512i second;
};

inline Chunk decode_delta4(const std::uint8_t* __restrict sign_mantissa,
                           const std::uint8_t* __restrict nibbles,
                           const std::uint8_t* __restrict exponents) {
  const __m512i pairs =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(nibbles)));
  const __m512i nibble = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4)),
                                          _mm512_set1_epi16(0x0F0F));
  const __mmask64 present = _mm512_test_epi8_mask(nibble, nibble);
  const __m512i sm = _mm512_maskz_loadu_epi8(present, sign_mantissa);
  const __m512i exponent = _mm512_maskz_add_epi8(present, nibble, _mm512_loadu_si512(exponents));
  // Bits of the first operand choose between the other two.
  constexpr int kSelect = 0xCA;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  const __m512i high = _mm512_ternarylogic_epi32(sign, sm, _mm512_srli_epi16(exponent, 1), kSelect);
  const __m512i low = _mm512_ternarylogic_epi32(sign, _mm512_slli_epi16(exponent, 7), sm, kSelect);
  return {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
}

inline Chunk load_plain(const std::uint8_t* __restrict row) {
  const __m512i a = _mm512_loadu_si512(row);
  const __m512i b = _mm512_loadu_si512(row + 64);
  return {_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xDD)};
}

inline void decode_row(const RowSource& keys, std::size_t token, std::uint16_t* __restrict out) {
  const std::uint8_t* const row = keys.rows + token * keys.row_bytes;
  for (std::size_t c = 0; c < keys.dim; c += kChunk) {
    const Chunk chunk = keys.form == NKV_ROW_FORM_DELTA4
                            ? decode_delta4(row + c, row + keys.dim + c / 2, keys.exponents + c)
                            : load_plain(row + 2 * c);
    _mm512_store_si512(out + c, chunk.first);
    _mm512_store_si512(out + c + kHalf, chunk.second);
  }
}

inline __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

/// Sums of the lanes of four vectors.
inline __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512 blocks = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
  const __m256 half =
      _mm256_add_ps(_mm512_castps512_ps256(blocks), _mm512_extractf32x8_ps(blocks, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

template <std::size_t kRows>
inline void score_block(const std::uint16_t* __restrict keys, const std::uint16_t* __restrict query,
                        std::size_t dim, float factor, float* __restrict scores) {
  __m512 sums[kRows][kTokenBlock];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  for (std::size_t c = 0; c < dim; c += kHalf) {
    __m512i key[kTokenBlock];
    for (std::size_t t = 0; t < kTokenBlock; ++t) key[t] = _mm512_load_si512(keys + t * dim + c);
    for (std::size_t row = 0; row < kRows; ++row) {
      const __m512i q = _mm512_loadu_si512(query + row * dim + c);
      for (std::size_t t = 0; t < kTokenBlock; ++t) {
        sums[row][t] = add_products(sums[row][t], q, key[t]);
      }
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    const __m128 sum = sums_of(sums[row][0], sums[row][1], sums[row][2], sums[row][3]);
    _mm_storeu_ps(scores + row * NKV_PAGE_TOKENS, _mm_mul_ps(sum, _mm_set1_ps(factor)));
  }
}

}  // namespace

bool has_bf16_scores(const RowSource& keys) {
  return keys.dtype == NKV_DTYPE_BF16 && keys.dim % kChunk == 0 &&
         __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq");
}

void arrange_bf16_query(const std::uint16_t* row, std::size_t dim, std::uint16_t* arranged) {
  for (std::size_t channel = 0; channel < dim; ++channel) {
    const std::size_t inside = channel % kChunk;
    arranged[channel / kChunk * kChunk + inside % 16 / 8 * kHalf + inside / 16 * 8 + inside % 8] =
        row[channel];
  }
}

void bf16_scores(const RowSource& keys, std::size_t first, const std::uint16_t* query,
                 std::size_t rows, float factor, float* scores) {
  alignas(64) std::uint16_t decoded[kTokenBlock * NKV_MAX_HEAD_DIM];
  const std::size_t dim = keys.dim;
  for (std::size_t t = 0; t < kBf16ScoreTokens; t += kTokenBlock) {
    for (std::size_t i = 0; i < kTokenBlock; ++i) {
      decode_row(keys, first + t + i, decoded + i * dim);
    }
    std::size_t row = 0;
    for (; row + kRowBlock <= rows; row += kRowBlock) {
      score_block<kRowBlock>(decoded, query + row * dim, dim, factor,
                             scores + row * NKV_PAGE_TOKENS + t);
    }
    for (; row < rows; ++row) {
      score_block<1>(decoded, query + row * dim, dim, factor, scores + row * NKV_PAGE_TOKENS + t);
    }
  }
}

}  // namespace nearkv

#else

namespace nearkv {

bool has_bf16_scores(const RowSource& /*keys*/) { return false; }

void arrange_bf16_query(const std::uint16_t* /*row*/, std::size_t /*dim*/,
                        std::uint16_t* /*arranged*/) {}

void bf16_scores(const RowSource& /*keys*/, std::size_t /*first*/, const std::uint16_t* /*query*/,
                 std::size_t /*rows*/, float /*factor*/, float* /*scores*/) {}

}  // namespace nearkv

#endif
