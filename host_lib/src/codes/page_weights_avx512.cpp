// Drawn scores of a page's tokens and their weights (ARITHMETIC.md, sections 13.1 and 13.2).
// Compiled for AVX-512: see the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// Weights of scores below a top.
class Weights {
 public:
  Weights() {
    const KernelTables& tables = kernel_tables();
    for (std::size_t i = 0; i < 4; ++i) mantissas_[i] = load(tables.mantissas + kHalf * i);
  }
  [[nodiscard]] __m512i of(__m512i drawn, __m512i top) const {
    const __m512i low = _mm512_permutex2var_epi16(mantissas_[0], drawn, mantissas_[1]);
    const __m512i high = _mm512_permutex2var_epi16(mantissas_[2], drawn, mantissas_[3]);
    const __mmask32 is_high = _mm512_test_epi16_mask(drawn, _mm512_set1_epi16(64));
    const __m512i below = _mm512_sub_epi16(top, _mm512_srai_epi16(drawn, 7));
    return _mm512_srlv_epi16(_mm512_mask_mov_epi16(low, is_high, high), below);
  }

 private:
  __m512i mantissas_[4];
};

std::int16_t largest_of(__m512i numbers) {
  const __m256i four =
      _mm256_max_epi16(_mm512_castsi512_si256(numbers), _mm512_extracti64x4_epi64(numbers, 1));
  const __m128i two =
      _mm_max_epi16(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  // The least of what is turned around, without sign.
  const __m128i turned = _mm_xor_si128(two, _mm_set1_epi16(0x7FFF));
  return static_cast<std::int16_t>(_mm_extract_epi16(_mm_minpos_epu16(turned), 0) ^ 0x7FFF);
}

PageWeight weigh(const std::int16_t* above, const std::int16_t* half, const std::int16_t* part,
                 const DrawnTo& drawn_to, std::int16_t* drawn) {
  const __m512i mean = _mm512_set1_epi16(drawn_to.mean);
  const __m512i least = _mm512_set1_epi16(kNoLog16);
  __m512i scores[2];
  __m512i largest = least;
  for (std::size_t i = 0; i < 2; ++i) {
    const __m512i r = _mm512_load_si512(above + kHalf * i);
    const __m512i h = _mm512_load_si512(half + kHalf * i);
    const __m512i upper = _mm512_adds_epi16(r, h);
    const __m512i distance = _mm512_subs_epi16(upper, mean);
    const __m512i moved =
        _mm512_adds_epi16(mean, _mm512_mulhrs_epi16(distance, _mm512_load_si512(part + kHalf * i)));
    const __m512i score = _mm512_max_epi16(_mm512_min_epi16(moved, upper), _mm512_subs_epi16(r, h));
    _mm512_store_si512(drawn + kHalf * i, score);
    largest = _mm512_max_epi16(largest,
                               _mm512_mask_mov_epi16(least, half_of(drawn_to.visible, i), score));
    scores[i] = score;
  }
  const std::int32_t top = largest_of(largest) >> 7;
  const Weights weights;
  const __m512i tops = _mm512_set1_epi16(static_cast<std::int16_t>(top));
  const __m512i sign = _mm512_set1_epi16(kNoLog16);
  const __m512i one = _mm512_set1_epi16(1);
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < 2; ++i) {
    const __m512i weight =
        _mm512_maskz_mov_epi16(half_of(drawn_to.rest, i), weights.of(scores[i], tops));
    sum = _mm512_dpwssd_epi32(sum, _mm512_xor_si512(weight, sign), one);
  }
  return {top, static_cast<std::uint32_t>(_mm512_reduce_add_epi32(sum) + (1 << 15) * 64)};
}

void token_weights(const std::int16_t* drawn, std::int32_t top, std::uint16_t* weights) {
  const Weights of_scores;
  const __m512i tops = _mm512_set1_epi16(static_cast<std::int16_t>(top));
  for (std::size_t t = 0; t < kTokens; t += kHalf) {
    _mm512_store_si512(weights + t, of_scores.of(_mm512_load_si512(drawn + t), tops));
  }
}

std::uint64_t coded_shares(const std::int16_t* drawn, std::int32_t top, const std::int16_t* factors,
                           std::uint16_t* shares) {
  const Weights of_scores;
  const __m512i tops = _mm512_set1_epi16(static_cast<std::int16_t>(top));
  std::uint64_t some = 0;
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t at = kHalf * half;
    const __m512i weight = of_scores.of(_mm512_load_si512(drawn + at), tops);
    const __m512i share =
        _mm512_srli_epi16(_mm512_mulhi_epu16(weight, _mm512_load_si512(factors + at)), 1);
    _mm512_store_si512(shares + at, share);
    some |= std::uint64_t{_mm512_test_epi16_mask(share, share)} << at;
  }
  return some;
}

std::int16_t largest(const std::int16_t* scores, std::uint64_t tokens) {
  const __m512i least = _mm512_set1_epi16(kNoLog16);
  return largest_of(
      _mm512_max_epi16(_mm512_mask_loadu_epi16(least, half_of(tokens, 0), scores),
                       _mm512_mask_loadu_epi16(least, half_of(tokens, 1), scores + kHalf)));
}

}  // namespace

void avx512::set_weight_kernels(PageKernels* kernels) {
  kernels->weigh = weigh;
  kernels->token_weights = token_weights;
  kernels->coded_shares = coded_shares;
  kernels->largest = largest;
}

}  // namespace nearkv

#endif
