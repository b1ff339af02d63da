// What planes and rows of a page's granules are worth (ARITHMETIC.md, section 13.6). Compiled for
// AVX-512: see the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// One lane of 32 bits of each granule.
template <std::size_t kGranule>
constexpr __mmask16 first_lanes() {
  return kGranule == 2    ? 0xFFFF
         : kGranule == 4  ? 0x5555
         : kGranule == 8  ? 0x1111
         : kGranule == 16 ? 0x0101
                          : 0x0001;
}

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

/// Sums of granules of 32 numbers of 16 bits, at most 4096 each: in every lane of 32 bits.
template <std::size_t kGranule>
__m512i fold_sums(__m512i numbers) {
  __m512i sum = _mm512_madd_epi16(numbers, _mm512_set1_epi16(1));
  if constexpr (kGranule > 2) sum = _mm512_add_epi32(sum, swapped<2>(sum));
  if constexpr (kGranule > 4) sum = _mm512_add_epi32(sum, swapped<4>(sum));
  if constexpr (kGranule > 8) sum = _mm512_add_epi32(sum, swapped<8>(sum));
  if constexpr (kGranule > 16) sum = _mm512_add_epi32(sum, swapped<16>(sum));
  return sum;
}

template <std::size_t kGranule>
void add_granules(__m512i numbers, std::int32_t* costs) {
  constexpr std::size_t kCount = kHalf / kGranule;
  constexpr auto kAll = static_cast<__mmask16>((1U << kCount) - 1);
  const __m512i sums =
      _mm512_maskz_compress_epi32(first_lanes<kGranule>(), fold_sums<kGranule>(numbers));
  _mm512_mask_storeu_epi32(costs, kAll,
                           _mm512_add_epi32(_mm512_maskz_loadu_epi32(kAll, costs), sums));
}

std::uint64_t add_costs(const std::int16_t* worths, std::uint64_t tokens, std::int16_t row_cost,
                        std::size_t granule, std::int32_t* costs) {
  const __m512i octaves = load(kernel_tables().octaves);
  const __m512i most = _mm512_set1_epi16(row_cost);
  std::uint64_t reached = 0;
  for (std::size_t half = 0; half < 2; ++half) {
    const __mmask32 own = half_of(tokens, half);
    const __m512i worth =
        _mm512_min_epi16(_mm512_load_si512(worths + kHalf * half), _mm512_set1_epi16(4 * 16));
    const __m512i mantissa = _mm512_slli_epi16(_mm512_permutexvar_epi16(worth, octaves), 1);
    const __m512i shift = _mm512_sub_epi16(_mm512_set1_epi16(4), _mm512_srai_epi16(worth, 4));
    const __m512i cost = _mm512_min_epi16(_mm512_maskz_srlv_epi16(own, mantissa, shift), most);
    reached |= std::uint64_t{_mm512_mask_cmpeq_epi16_mask(own, cost, most)} << (kHalf * half);
    std::int32_t* const to = costs + kHalf / granule * half;
    switch (granule) {
      case 1: {
        const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(cost));
        const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(cost, 1));
        _mm512_storeu_si512(to, _mm512_add_epi32(load(to), low));
        _mm512_storeu_si512(to + 16, _mm512_add_epi32(load(to + 16), high));
        break;
      }
      case 2:
        add_granules<2>(cost, to);
        break;
      case 4:
        add_granules<4>(cost, to);
        break;
      case 8:
        add_granules<8>(cost, to);
        break;
      case 16:
        add_granules<16>(cost, to);
        break;
      default:
        add_granules<32>(cost, to);
    }
  }
  return reached;
}

}  // namespace

void avx512::set_choice_kernels(PageKernels* kernels) {
  kernels->raise_keys = raise_keys;
  kernels->raise_prices = raise_prices;
  kernels->add_costs = add_costs;
}

}  // namespace nearkv

#endif
