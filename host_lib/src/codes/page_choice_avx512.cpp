// What planes and rows of a page's granules are worth (ARITHMETIC.md, section 13.6). Compiled for
// AVX-512: see the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

void raise_keys(const std::int16_t* drawn, const std::int16_t* effects, const std::int16_t* falls,
                std::int16_t rest, std::int16_t* worths) {
  const __m512i rests = _mm512_set1_epi16(rest);
  for (std::size_t t = 0; t < kTokens; t += kHalf) {
    const __m512i own = _mm512_add_epi16(_mm512_srai_epi16(_mm512_load_si512(drawn + t), 2),
                                         _mm512_load_si512(effects + t));
    const __m512i worth =
        _mm512_adds_epi16(_mm512_adds_epi16(own, rests), _mm512_load_si512(falls + t));
    _mm512_store_si512(worths + t, _mm512_max_epi16(_mm512_load_si512(worths + t), worth));
  }
}

void raise_prices(const PriceTerms& terms, std::int16_t rest, std::int16_t other_rest,
                  std::int16_t* worths) {
  const KernelTables& tables = kernel_tables();
  const __m512i rests = _mm512_set1_epi16(rest);
  const __m512i other_rests = _mm512_set1_epi16(other_rest);
  for (std::size_t t = 0; t < kTokens; t += kHalf) {
    const __m512i drawn = _mm512_load_si512(terms.drawn + t);
    const __m512i own = _mm512_add_epi16(_mm512_srai_epi16(drawn, 2),
                                         _mm512_add_epi16(_mm512_load_si512(terms.effects + t),
                                                          _mm512_load_si512(terms.energies + t)));
    const __m512i energy = _mm512_adds_epi16(own, rests);
    const __m512i amplitude = _mm512_adds_epi16(
        _mm512_add_epi16(_mm512_srai_epi16(drawn, 3), _mm512_load_si512(terms.amplitudes + t)),
        other_rests);
    const __m512i larger = _mm512_max_epi16(energy, amplitude);
    const __m512i index = _mm512_min_epu16(
        _mm512_sub_epi16(larger, _mm512_min_epi16(energy, amplitude)), _mm512_set1_epi16(127));
    const __m512i excess = _mm512_and_si512(
        _mm512_permutex2var_epi8(load(tables.sum_excess), index, load(tables.sum_excess + 64)),
        _mm512_set1_epi16(0xFF));
    _mm512_store_si512(worths + t, _mm512_max_epi16(_mm512_load_si512(worths + t),
                                                    _mm512_adds_epi16(larger, excess)));
  }
}

std::uint64_t at_least(const std::int16_t* numbers, std::int16_t least) {
  const __m512i bound = _mm512_set1_epi16(least);
  return _mm512_cmpge_epi16_mask(load(numbers), bound) |
         std::uint64_t{_mm512_cmpge_epi16_mask(load(numbers + kHalf), bound)} << kHalf;
}

}  // namespace

void avx512::set_choice_kernels(PageKernels* kernels) {
  kernels->raise_keys = raise_keys;
  kernels->raise_prices = raise_prices;
  kernels->at_least = at_least;
}

}  // namespace nearkv

#endif
