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

/// 16-bit numbers, each where the one kDistance away was: the other half of its pair, or the other
/// pair, and so on. One stage of a fold over granules of more than kDistance tokens.
template <std::size_t kDistance>
inline __m512i swapped(__m512i numbers) {
  if constexpr (kDistance == 1) return _mm512_rol_epi32(numbers, 16);
  if constexpr (kDistance == 2) return _mm512_shuffle_epi32(numbers, _MM_PERM_CDAB);
  if constexpr (kDistance == 4) return _mm512_shuffle_epi32(numbers, _MM_PERM_BADC);
  if constexpr (kDistance == 8) return _mm512_permutex_epi64(numbers, 0x4E);
  return _mm512_shuffle_i64x2(numbers, numbers, 0x4E);
}

/// A mean as 16-bit numbers, zero behind its own in the last vector.
class WideMean {
 public:
  WideMean(const std::int8_t* mean, std::size_t dim) {
    for (std::size_t c = 0; c < dim; c += kHalf) {
      const __mmask32 mask = dim - c >= kHalf ? ~__mmask32{0} : (__mmask32{1} << (dim - c)) - 1;
      _mm512_store_si512(wide_ + c, _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, mean + c)));
    }
  }
  /// A vector from a channel on, which is a multiple of kHalf.
  [[nodiscard]] __m512i at(std::size_t channel) const { return _mm512_load_si512(wide_ + channel); }

 private:
  alignas(64) std::int16_t wide_[NKV_MAX_HEAD_DIM + kHalf];
};

/// Each sets the kernels of one file; together they set all.
void set_score_kernels(PageKernels* kernels);
void set_weight_kernels(PageKernels* kernels);
void set_sum_kernels(PageKernels* kernels);
void set_error_kernels(PageKernels* kernels);
void set_choice_kernels(PageKernels* kernels);

}  // namespace nearkv::avx512

#else
#define NEARKV_HAS_AVX512_PAGES 0
#endif
