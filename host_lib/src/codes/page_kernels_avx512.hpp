// What the kernels of pages for AVX-512 share.
//
// Only for the files *_avx512.cpp, which are compiled for AVX-512 with VBMI2 and VNNI whatever the
// rest of the library is compiled for, and entered only where the processor has it. None of them
// includes anything whose inline functions other files might share; those here are in no others.
#pragma once

#include "codes/page_kernels.hpp"

#if defined(__AVX512VBMI2__) && defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#define NEARKV_HAS_AVX512_PAGES 1

#include <immintrin.h>

namespace nearkv::avx512 {

inline constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
inline constexpr std::size_t kHalf = 32;  ///< Tokens of a vector of 16-bit numbers.

inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }

/// Those of `tokens` that lie in one vector: the first one is of `half` 0.
inline __mmask32 half_of(std::uint64_t tokens, std::size_t half) {
  return static_cast<__mmask32>(tokens >> (kHalf * half));
}

/// Sixteen numbers, twice: what an index of five bits finds whatever its uppermost one is.
inline __m512i load_table(const std::int16_t* table) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(table)));
}

/// Factors of 32 tokens, from four bits a token, as 16-bit numbers with other bits above the four.
inline __m512i load_factors(const std::uint8_t* packed, std::size_t half) {
  const __m512i pairs = _mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + kHalf / 2 * half)));
  return _mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12));
}

/// Sums of the 32-bit numbers of four vectors.
inline __m128i sums_of(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i all =
      _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half =
      _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/// The largest of 32 numbers, in the lowest place.
inline __m128i largest_of(__m512i numbers) {
  const __m256i four =
      _mm256_max_epi16(_mm512_castsi512_si256(numbers), _mm512_extracti64x4_epi64(numbers, 1));
  const __m128i two =
      _mm_max_epi16(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  // The least of what is turned around, without sign.
  const __m128i turn = _mm_set1_epi16(0x7FFF);
  return _mm_xor_si128(_mm_minpos_epu16(_mm_xor_si128(two, turn)), turn);
}

/// 32 channels of a mean as 16-bit numbers, zero behind its own.
inline __m512i load_mean(const std::int8_t* mean, std::size_t dim, std::size_t channel) {
  const std::size_t left = dim - channel;
  const __mmask32 mask = left >= kHalf ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
  return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, mean + channel));
}

inline constexpr std::size_t kQuad = 4;  ///< Tokens whose rows of a plane are loaded at once.

/// Bits of four tokens' rows in a plane, up to 128 channels from a byte on: a token in each
/// quarter.
inline __m512i load_quad(const std::uint8_t* plane, std::size_t row_bytes, std::size_t token,
                         std::size_t byte) {
  const std::uint8_t* const from = plane + token * row_bytes + byte;
  if (row_bytes == 16) return load(from);
  if (row_bytes == 8) {
    const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_permutexvar_epi64(_mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0),
                                    _mm512_castsi256_si512(rows));
  }
  const std::size_t left = row_bytes - byte;
  const auto mask = static_cast<__mmask16>(left < 16 ? (1U << left) - 1 : 0xFFFFU);
  __m512i quad = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(mask, from));
  quad = _mm512_inserti32x4(quad, _mm_maskz_loadu_epi8(mask, from + row_bytes), 1);
  quad = _mm512_inserti32x4(quad, _mm_maskz_loadu_epi8(mask, from + 2 * row_bytes), 2);
  return _mm512_inserti32x4(quad, _mm_maskz_loadu_epi8(mask, from + 3 * row_bytes), 3);
}

/// What kPlanes planes say, byte by byte: bits from each one's place on, where the first plane's
/// own bit is the uppermost of kPlanes from bit kLowest on, the next one's the one below, and so
/// on.
template <std::size_t kPlanes, int kLowest>
inline __m512i merge_planes(const __m512i* bits, __m512i places) {
  __m512i merged = _mm512_multishift_epi64_epi8(places, bits[0]);
  for (std::size_t plane = 1; plane < kPlanes; ++plane) {
    const __m512i next = _mm512_multishift_epi64_epi8(places, bits[plane]);
    const __m512i is_above =
        _mm512_set1_epi8(static_cast<char>(0xFF << (static_cast<int>(kPlanes - plane) + kLowest)));
    merged = _mm512_ternarylogic_epi64(merged, next, is_above, 0xE4);
  }
  return _mm512_and_si512(merged,
                          _mm512_set1_epi8(static_cast<char>(((1 << kPlanes) - 1) << kLowest)));
}

/// Each sets the kernels of one file; together they set all.
void set_score_kernels(PageKernels* kernels);
void set_refine_kernels(PageKernels* kernels);
void set_weight_kernels(PageKernels* kernels);
void set_row_kernels(PageKernels* kernels);
void set_sum_kernels(PageKernels* kernels);
void set_error_kernels(PageKernels* kernels);
void set_total_kernels(PageKernels* kernels);

}  // namespace nearkv::avx512

#else
#define NEARKV_HAS_AVX512_PAGES 0
#endif
