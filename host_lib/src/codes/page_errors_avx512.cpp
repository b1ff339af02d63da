// Errors of a page's granules (ARITHMETIC.md, sections 13.3 and 13.4). Compiled for AVX-512: see
// the header.
#include "codes/page_kernels_avx512.hpp"

#if NEARKV_HAS_AVX512_PAGES

namespace nearkv {
namespace {

using namespace avx512;  // NOLINT(google-build-using-namespace): this file's own other half.

/// floor(16 log2) of 32-bit numbers above 0.
__m512i logs_of(__m512i numbers, __m512i first_steps, __m512i before) {
  const __m512i zeros = _mm512_lzcnt_epi32(numbers);
  const __m512i top = _mm512_srli_epi32(_mm512_sllv_epi32(numbers, zeros), 16);
  // The index's uppermost bit is that of 2^15: it is not looked at.
  const __m512i index = _mm512_srli_epi32(top, 10);
  const __m512i first = _mm512_maskz_permutexvar_epi16(0x55555555, index, first_steps);
  const __m512i step = _mm512_maskz_permutexvar_epi16(0x55555555, first, before);
  const __mmask16 reached = _mm512_cmpgt_epu32_mask(top, step);
  const __m512i low = _mm512_mask_add_epi32(first, reached, first, _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(31), zeros), 4),
                          low);
}

/// Sums of powers of 32 terms by granule, at 14 fraction bits, against their largest: in every lane
/// of 32 bits.
struct GranuleSums {
  __m512i sums;
  __m512i largest;
};

template <std::size_t kGranule>
GranuleSums fold_powers(__m512i term, __m512i octaves) {
  __m512i largest = term;
  if constexpr (kGranule > 1) largest = _mm512_max_epi16(largest, swapped<1>(largest));
  if constexpr (kGranule > 2) largest = _mm512_max_epi16(largest, swapped<2>(largest));
  if constexpr (kGranule > 4) largest = _mm512_max_epi16(largest, swapped<4>(largest));
  if constexpr (kGranule > 8) largest = _mm512_max_epi16(largest, swapped<8>(largest));
  if constexpr (kGranule > 16) largest = _mm512_max_epi16(largest, swapped<16>(largest));
  const __m512i below = _mm512_subs_epi16(term, largest);
  const __m512i mantissa = _mm512_slli_epi16(_mm512_permutexvar_epi16(below, octaves), 3);
  const __m512i shift = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_srai_epi16(below, 4));
  __m512i sum = _mm512_madd_epi16(_mm512_srlv_epi16(mantissa, shift), _mm512_set1_epi16(1));
  if constexpr (kGranule > 2) sum = _mm512_add_epi32(sum, swapped<2>(sum));
  if constexpr (kGranule > 4) sum = _mm512_add_epi32(sum, swapped<4>(sum));
  if constexpr (kGranule > 8) sum = _mm512_add_epi32(sum, swapped<8>(sum));
  if constexpr (kGranule > 16) sum = _mm512_add_epi32(sum, swapped<16>(sum));
  return {sum, largest};
}

/// One lane of each granule of two vectors.
template <std::size_t kGranule>
__m512i gathered(__m512i first, __m512i second) {
  constexpr std::size_t kCount = kHalf / kGranule;
  constexpr int kDistance = kGranule / 2;
  alignas(64) static constexpr auto kLanes = [] {
    struct Lanes {
      std::int32_t at[16];
    } lanes{};
    for (std::size_t i = 0; i < 16; ++i) {
      const std::size_t vector = i / kCount % 2;
      lanes.at[i] = static_cast<std::int32_t>(16 * vector + i % kCount * kDistance);
    }
    return lanes;
  }();
  return _mm512_permutex2var_epi32(first, _mm512_load_si512(kLanes.at), second);
}

__m256i logs_of_sums(const GranuleSums& sums, const KernelTables& tables) {
  const __m512i least = _mm512_set1_epi32(kNoLog16);
  const __m512i largest = _mm512_srai_epi32(_mm512_slli_epi32(sums.largest, 16), 16);
  const __mmask16 is_some = _mm512_cmpneq_epi32_mask(largest, least);
  const __m512i logs = logs_of(sums.sums, load(tables.first_steps), load(tables.before_steps));
  return _mm512_cvtepi32_epi16(_mm512_mask_add_epi32(
      least, is_some, largest, _mm512_sub_epi32(logs, _mm512_set1_epi32(16 * 14))));
}

template <std::size_t kGranule>
void fold_logs(__m512i first_terms, __m512i second_terms, std::int16_t* logs) {
  const KernelTables& tables = kernel_tables();
  const __m512i octaves = load(tables.octaves);
  const GranuleSums first = fold_powers<kGranule>(first_terms, octaves);
  const GranuleSums second = fold_powers<kGranule>(second_terms, octaves);
  if constexpr (kGranule == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(logs), logs_of_sums(first, tables));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(logs + 16), logs_of_sums(second, tables));
  } else {
    constexpr auto kAll = static_cast<__mmask16>((1U << (kTokens / kGranule)) - 1);
    const GranuleSums both{gathered<kGranule>(first.sums, second.sums),
                           gathered<kGranule>(first.largest, second.largest)};
    _mm256_mask_storeu_epi16(logs, kAll, logs_of_sums(both, tables));
  }
}

__m512i load_terms(const TermParts& terms, std::uint64_t tokens, std::size_t half) {
  const std::size_t at = kHalf * half;
  const __m512i drawn =
      _mm512_sra_epi16(_mm512_load_si512(terms.drawn + at), _mm_cvtsi32_si128(terms.shift));
  const __m512i rest =
      _mm512_add_epi16(_mm512_load_si512(terms.first + at), _mm512_load_si512(terms.second + at));
  return _mm512_mask_add_epi16(_mm512_set1_epi16(kNoLog16), half_of(tokens, half), drawn, rest);
}

void granule_logs(const TermParts& terms, std::uint64_t tokens, std::size_t granule,
                  std::int16_t* logs) {
  const __m512i first = load_terms(terms, tokens, 0);
  const __m512i second = load_terms(terms, tokens, 1);
  switch (granule) {
    case 1:  // The logarithm of one power.
      _mm512_storeu_si512(logs, first);
      _mm512_storeu_si512(logs + kHalf, second);
      return;
    case 2:
      return fold_logs<2>(first, second, logs);
    case 4:
      return fold_logs<4>(first, second, logs);
    case 8:
      return fold_logs<8>(first, second, logs);
    case 16:
      return fold_logs<16>(first, second, logs);
    default:
      return fold_logs<32>(first, second, logs);
  }
}

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

void avx512::set_error_kernels(PageKernels* kernels) {
  kernels->granule_logs = granule_logs;
  kernels->output_products = output_products;
  kernels->total = total;
}

}  // namespace nearkv

#endif
