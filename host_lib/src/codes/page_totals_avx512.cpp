// Totals of granules' errors (ARITHMETIC.md, sections 13.3 and 13.4). Compiled for AVX-512: see the
// header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

void output_products(const std::int8_t* mean, const std::int16_t* outputs, std::size_t dim,
                     std::size_t padded, std::size_t rows, std::int64_t* products) {
  const WideMean wide(mean, dim);
  for (std::size_t row = 0; row < rows; ++row, outputs += padded) {
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t c = 0; c < dim; c += kHalf) {
      sum = _mm512_dpwssd_epi32(sum, wide.at(c), load(outputs + c));
    }
    const __m512i halves =
        _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(sum)),
                         _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sum, 1)));
    products[row] = _mm512_reduce_add_epi64(halves);
  }
}

/// Eight 16-bit logarithms with what they have besides, as 64-bit numbers.
__m512i load_logs(const std::int16_t* logs, __mmask8 mask, std::int64_t rest) {
  return _mm512_add_epi64(_mm512_cvtepi16_epi64(_mm_maskz_loadu_epi16(mask, logs)),
                          _mm512_set1_epi64(rest));
}

/// floor(2^(energies / 16 + 24)) of energies of at most 320.
__m512i powers_of(__m512i energies, const KernelTables& tables) {
  const __m512i x = _mm512_min_epi64(energies, _mm512_set1_epi64(320));
  const __m512i mantissa =
      _mm512_permutex2var_epi64(load(tables.wide_octaves), x, load(tables.wide_octaves + 8));
  const __m512i below = _mm512_sub_epi64(_mm512_set1_epi64(20), _mm512_srai_epi64(x, 4));
  return _mm512_srlv_epi64(_mm512_slli_epi64(mantissa, 33), below);
}

/// Energies as 16-bit numbers: kNoLog16 where `mask` is not set.
void store_logs(std::int16_t* to, __m512i energies, __mmask8 some, __mmask8 all) {
  const __m512i bounded = _mm512_max_epi64(_mm512_min_epi64(energies, _mm512_set1_epi64(32767)),
                                           _mm512_set1_epi64(kNoLog16 + 1));
  _mm_mask_storeu_epi16(
      to, all,
      _mm512_cvtepi64_epi16(_mm512_mask_mov_epi64(_mm512_set1_epi64(kNoLog16), some, bounded)));
}

GranuleTotals total(const GranuleTerms& terms, std::int16_t* keys, std::int16_t* prices) {
  const KernelTables& tables = kernel_tables();
  const __m128i none = _mm_set1_epi16(kNoLog16);
  __m512i energy = _mm512_setzero_si512();
  __m512i coherent = _mm512_setzero_si512();
  const bool has_keys = terms.of_keys >= kLeastOfSome;
  for (std::size_t g = 0; g < terms.key_count; g += 8) {
    const std::size_t left = terms.key_count - g;
    const __mmask8 all = left >= 8 ? 0xFF : static_cast<__mmask8>((1U << left) - 1);
    const __mmask8 some =
        has_keys ? _mm_mask_cmpneq_epi16_mask(all, _mm_maskz_loadu_epi16(all, terms.keys + g), none)
                 : __mmask8{0};
    const __m512i energies = load_logs(terms.keys + g, all, terms.of_keys);
    energy = _mm512_mask_add_epi64(energy, some, energy, powers_of(energies, tables));
    store_logs(keys + g, energies, some, all);
  }
  for (std::size_t g = 0; g < terms.value_count; g += 8) {
    const std::size_t left = terms.value_count - g;
    const __mmask8 all = left >= 8 ? 0xFF : static_cast<__mmask8>((1U << left) - 1);
    const __mmask8 some =
        _mm_mask_cmpneq_epi16_mask(all, _mm_maskz_loadu_epi16(all, terms.values + g), none);
    const __m128i planes = _mm_maskz_loadu_epi8(all, terms.planes + g);
    const __mmask8 coded = static_cast<__mmask8>(_mm_test_epi8_mask(planes, planes)) & some;
    const __m512i value = load_logs(terms.values + g, all, terms.of_values);
    const __m512i share = load_logs(terms.shares + g, all, terms.of_shares);
    const __m512i amplitude =
        _mm512_add_epi64(share, _mm512_mask_mov_epi64(_mm512_set1_epi64(kCoherenceOfNone), coded,
                                                      _mm512_set1_epi64(kCoherenceOfCodes)));
    const __m512i distance = _mm512_min_epi64(_mm512_abs_epi64(_mm512_sub_epi64(value, amplitude)),
                                              _mm512_set1_epi64(127));
    const __m512i excess = _mm512_and_si512(
        _mm512_permutex2var_epi8(load(tables.sum_excess), distance, load(tables.sum_excess + 64)),
        _mm512_set1_epi64(0xFF));
    const __m512i price = _mm512_add_epi64(_mm512_max_epi64(value, amplitude), excess);
    const __m512i counted = _mm512_mask_mov_epi64(price, coded, value);
    energy = _mm512_mask_add_epi64(energy, some, energy, powers_of(counted, tables));
    if (coded != 0) {
      coherent = _mm512_mask_add_epi64(coherent, coded, coherent, powers_of(share, tables));
    }
    store_logs(prices + g, price, some, all);
  }
  return {static_cast<std::uint64_t>(_mm512_reduce_add_epi64(energy)),
          static_cast<std::uint64_t>(_mm512_reduce_add_epi64(coherent))};
}

}  // namespace

void avx512::set_total_kernels(PageKernels* kernels) {
  kernels->output_products = output_products;
  kernels->total = total;
}

}  // namespace nearkv

#endif
