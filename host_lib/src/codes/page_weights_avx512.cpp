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

/// H or W of 32 tokens of a page in a row.
class TokenNumbers {
 public:
  explicit TokenNumbers(const std::int16_t* const* tables)
      : tables_(tables), coarse_(load_table(tables[0])) {}

  /// Of factors, whose bits above four do not matter; 0 of others than `tokens`.
  [[nodiscard]] __m512i of(__m512i factors, __mmask32 tokens) const {
    return _mm512_maskz_permutexvar_epi16(tokens, factors, coarse_);
  }
  /// The same of tokens that have so many planes, where others have `numbers`.
  [[nodiscard]] __m512i of_refined(__m512i numbers, __m512i factors, __mmask32 tokens,
                                   std::size_t planes) const {
    return _mm512_mask_permutexvar_epi16(numbers, tokens, factors, load_table(tables_[planes - 1]));
  }

 private:
  const std::int16_t* const* tables_;
  __m512i coarse_;
};

/// What rows have in common on a page, of 32 tokens.
struct HalfPage {
  __m512i factors;
  __mmask32 visible;
  __mmask32 rest;
  __mmask32 drawn;
  __mmask32 refined[NKV_KEY_CODE_PLANES + 1];  ///< Of those that are drawn and have a factor.

  HalfPage(const DrawnPage& page, std::size_t half)
      : factors(load_factors(page.factors, half)),
        visible(half_of(page.visible, half)),
        rest(half_of(page.rest, half)),
        drawn(~half_of(page.exact, half)) {
    const __mmask32 some = _mm512_test_epi16_mask(factors, _mm512_set1_epi16(15));
    for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      refined[planes] = half_of(page.refined[planes], half) & some & drawn;
    }
  }
};

/// P of 32 tokens.
template <bool kHasRefined>
__m512i draw(const HalfPage& page, const TokenNumbers& halves, const TokenNumbers& parts,
             __m512i mean, __m512i above) {
  __m512i half = halves.of(page.factors, page.drawn);
  __m512i part = parts.of(page.factors, ~__mmask32{0});
  if constexpr (kHasRefined) {
    for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      if (page.refined[planes] == 0) continue;
      half = halves.of_refined(half, page.factors, page.refined[planes], planes);
      part = parts.of_refined(part, page.factors, page.refined[planes], planes);
    }
  }
  const __m512i upper = _mm512_adds_epi16(above, half);
  const __m512i distance = _mm512_subs_epi16(upper, mean);
  const __m512i moved = _mm512_adds_epi16(mean, _mm512_mulhrs_epi16(distance, part));
  return _mm512_max_epi16(_mm512_min_epi16(moved, upper), _mm512_subs_epi16(above, half));
}

template <bool kHasRefined>
void draw_rows(const std::int16_t* above, const HalfPage* halves, const DrawnRow* rows,
               std::size_t count, std::int16_t* drawn, PageWeight* weights) {
  for (std::size_t row = 0; row < count; ++row, above += kTokens, drawn += kTokens) {
    const TokenNumbers half(rows[row].half);
    const TokenNumbers part(rows[row].part);
    const __m512i mean = _mm512_set1_epi16(rows[row].mean);
    __m512i largest = _mm512_set1_epi16(kNoLog16);
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i score = draw<kHasRefined>(halves[i], half, part, mean, load(above + kHalf * i));
      _mm512_store_si512(drawn + kHalf * i, score);
      largest = _mm512_mask_max_epi16(largest, halves[i].visible, largest, score);
    }
    const __m128i top = _mm_srai_epi16(largest_of(largest), 7);
    weights[row].top = static_cast<std::int16_t>(_mm_extract_epi16(top, 0));
  }
}

/// Sums of weights of up to four rows whose tops are known.
void sum_weights(const std::int16_t* drawn, const HalfPage* halves, const Weights& of_scores,
                 std::size_t count, PageWeight* weights) {
  const __m512i sign = _mm512_set1_epi16(kNoLog16);
  __m512i sums[4];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (std::size_t row = 0; row < count; ++row) {
    const __m512i top = _mm512_set1_epi16(static_cast<std::int16_t>(weights[row].top));
    for (std::size_t i = 0; i < 2; ++i) {
      const __m512i weight = _mm512_maskz_mov_epi16(
          halves[i].rest, of_scores.of(load(drawn + row * kTokens + kHalf * i), top));
      // As numbers with sign, 2^15 less.
      sums[row] =
          _mm512_dpwssd_epi32(sums[row], _mm512_xor_si512(weight, sign), _mm512_set1_epi16(1));
    }
  }
  alignas(16) std::int32_t rests[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(rests), sums_of(sums[0], sums[1], sums[2], sums[3]));
  for (std::size_t row = 0; row < count; ++row) {
    weights[row].rest = static_cast<std::uint32_t>(rests[row] + (1 << 15) * 64);
  }
}

void weigh(const std::int16_t* above, const DrawnPage& page, const DrawnRow* rows,
           std::size_t count, std::int16_t* drawn, PageWeight* weights) {
  const HalfPage halves[2] = {HalfPage(page, 0), HalfPage(page, 1)};
  if ((page.refined[2] | page.refined[3] | page.refined[4]) != 0) {
    draw_rows<true>(above, halves, rows, count, drawn, weights);
  } else {
    draw_rows<false>(above, halves, rows, count, drawn, weights);
  }
  const Weights of_scores;
  for (std::size_t row = 0; row < count; row += 4) {
    const std::size_t some = count - row < 4 ? count - row : 4;
    sum_weights(drawn + row * kTokens, halves, of_scores, some, weights + row);
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

std::size_t bins(const std::int16_t* scores, std::uint64_t tokens, std::int16_t least,
                 std::uint16_t below, std::uint16_t* bins) {
  std::size_t count = 0;
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i own = load(scores + kHalf * half);
    const __mmask32 some =
        _mm512_mask_cmpge_epi16_mask(half_of(tokens, half), own, _mm512_set1_epi16(least));
    const __m512i distance =
        _mm512_sub_epi16(_mm512_set1_epi16(static_cast<std::int16_t>(below)), own);
    _mm512_storeu_si512(bins + count,
                        _mm512_maskz_compress_epi16(some, _mm512_srli_epi16(distance, 4)));
    count += static_cast<std::size_t>(__builtin_popcount(some));
  }
  return count;
}

std::int16_t largest(const std::int16_t* scores, std::uint64_t tokens) {
  const __m512i least = _mm512_set1_epi16(kNoLog16);
  const __m512i both =
      _mm512_max_epi16(_mm512_mask_loadu_epi16(least, half_of(tokens, 0), scores),
                       _mm512_mask_loadu_epi16(least, half_of(tokens, 1), scores + kHalf));
  return static_cast<std::int16_t>(_mm_extract_epi16(largest_of(both), 0));
}

}  // namespace

void avx512::set_weight_kernels(PageKernels* kernels) {
  kernels->weigh = weigh;
  kernels->coded_shares = coded_shares;
  kernels->bins = bins;
  kernels->largest = largest;
}

}  // namespace nearkv

#endif
