// Errors of a page's tokens, and of its granules (ARITHMETIC.md, sections 13.4 and 13.6). Compiled
// for AVX-512: see the header.
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

/// Numbers in even places, and in odd ones, of the first vector and behind them of the second.
void unzip(__m512i* first, __m512i* second) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  const __m512i low = _mm512_permutex2var_epi32(*first, even, *second);
  *second = _mm512_permutex2var_epi32(*first, odd, *second);
  *first = low;
}

/// Logarithms of sums of 2^terms over granules of kGranule tokens; make(i) is the i-th vector of 32
/// terms. As many vectors as a granule has pairs of tokens are summed at once, each pair of a
/// granule in one of them.
template <std::size_t kGranule, typename Make>
void sum_granules(std::size_t vectors, const Make& make, std::int16_t* logs) {
  constexpr std::size_t kPairs = kGranule / 2;
  const KernelTables& tables = kernel_tables();
  const __m512i fractions = load(tables.fractions);
  const __m512i first_steps = load(tables.first_steps);
  const __m512i before_steps = load(tables.before_steps);
  const __m512i least = _mm512_set1_epi32(kNoLog16);
  for (std::size_t first = 0; first < vectors; first += kPairs, logs += 16) {
    const std::size_t left = vectors - first;
    __m512i terms[kPairs];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kPairs; ++i) terms[i] = make(first + (i < left ? i : left - 1));
#pragma GCC unroll 4
    for (std::size_t apart = 1; apart < kPairs; apart *= 2) {
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kPairs; ++i) {
        if ((i & apart) == 0) unzip(&terms[i], &terms[i + apart]);
      }
    }
    __m512i largest = terms[0];
#pragma GCC unroll 16
    for (std::size_t i = 1; i < kPairs; ++i) largest = _mm512_max_epi16(largest, terms[i]);
    largest = _mm512_max_epi16(largest, _mm512_rol_epi32(largest, 16));
    __m512i sums = _mm512_setzero_si512();
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kPairs; ++i) {
      const __m512i below = _mm512_subs_epi16(largest, terms[i]);
      const __m512i power = _mm512_srlv_epi16(_mm512_permutexvar_epi16(below, fractions),
                                              _mm512_srli_epi16(below, 4));
      sums = _mm512_dpwssd_epi32(sums, power, _mm512_set1_epi16(1));
    }
    const __m512i top = _mm512_srai_epi32(largest, 16);
    const __mmask16 is_some = _mm512_cmpneq_epi32_mask(top, least);
    const __m512i fall =
        _mm512_sub_epi32(logs_of(sums, first_steps, before_steps), _mm512_set1_epi32(16 * 14));
    const auto all =
        static_cast<__mmask16>(left < kPairs ? (1U << (left * kHalf / kGranule)) - 1 : 0xFFFFU);
    _mm256_mask_storeu_epi16(
        logs, all, _mm512_cvtepi32_epi16(_mm512_mask_add_epi32(least, is_some, top, fall)));
  }
}

template <typename Make>
void sum_granules_of(std::size_t granule, std::size_t vectors, const Make& make,
                     std::int16_t* logs) {
  switch (granule) {
    case 1:  // The logarithm of one power.
      for (std::size_t i = 0; i < vectors; ++i) _mm512_storeu_si512(logs + kHalf * i, make(i));
      return;
    case 2:
      return sum_granules<2>(vectors, make, logs);
    case 4:
      return sum_granules<4>(vectors, make, logs);
    case 8:
      return sum_granules<8>(vectors, make, logs);
    case 16:
      return sum_granules<16>(vectors, make, logs);
    default:
      return sum_granules<32>(vectors, make, logs);
  }
}

/// What rows have in common of 32 tokens' keys.
struct HalfKeys {
  __m512i factors;
  __mmask32 without_row;
  bool has_refined;
  __mmask32 refined[NKV_KEY_CODE_PLANES + 1];  ///< Of those that have a factor.

  HalfKeys(const ErrorPage& page, std::size_t half)
      : factors(load_factors(page.key_factors, half)),
        without_row(~half_of(page.key_rows, half)),
        has_refined((page.refined[2] | page.refined[3] | page.refined[4]) != 0) {
    const __mmask32 some = _mm512_test_epi16_mask(factors, _mm512_set1_epi16(15));
    for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      refined[planes] = half_of(page.refined[planes], half) & some;
    }
  }

  /// KE or VE.
  [[nodiscard]] __m512i effects(const std::int16_t* const* tables) const {
    const __m512i coarse = _mm512_permutexvar_epi16(factors, load_table(tables[0]));
    if (!has_refined) return coarse;
    __m512i effects = coarse;
    for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      effects = _mm512_mask_permutexvar_epi16(effects, refined[planes], factors,
                                              load_table(tables[planes - 1]));
    }
    return effects;
  }
  /// VE: 0 with the key row.
  [[nodiscard]] __m512i value_effects(const ErrorRow& row) const {
    return _mm512_maskz_mov_epi16(without_row, effects(row.value_effects));
  }
};

/// |r|^2 and its half of 32 tokens' values.
struct HalfValues {
  __m512i energies;
  __m512i amplitudes;

  HalfValues(const std::uint8_t* packed, const ValueLengths& lengths, int planes,
             std::size_t half) {
    const __m512i factors = load_factors(packed, half);
    energies = _mm512_permutexvar_epi16(factors, load_table(lengths.energies[planes]));
    amplitudes = _mm512_permutexvar_epi16(factors, load_table(lengths.amplitudes[planes]));
  }

  /// By how many planes tokens have.
  HalfValues(const std::uint8_t* packed, const ValueLengths& lengths, const std::uint64_t* valued,
             std::size_t half)
      : HalfValues(packed, lengths, 0, half) {
    for (int planes = 2; planes <= NKV_VALUE_CODE_PLANES; ++planes) {
      const __mmask32 some = half_of(valued[planes], half);
      if (some == 0) continue;
      const HalfValues coded(packed, lengths, planes, half);
      energies = _mm512_mask_mov_epi16(energies, some, coded.energies);
      amplitudes = _mm512_mask_mov_epi16(amplitudes, some, coded.amplitudes);
    }
  }
};

__m512i load_drawn(const ErrorRow& row, std::size_t half) {
  return _mm512_load_si512(row.drawn + kHalf * half);
}

void key_logs(const ErrorPage& page, const ErrorRow* rows, std::size_t count,
              const GranuleTokens& granules, std::int16_t* logs) {
  const HalfKeys halves[2] = {HalfKeys(page, 0), HalfKeys(page, 1)};
  const auto make = [&](std::size_t i) {
    const ErrorRow& row = rows[i / 2];
    const std::size_t half = i % 2;
    return _mm512_mask_add_epi16(_mm512_set1_epi16(kNoLog16), half_of(granules.tokens, half),
                                 halves[half].effects(row.key_effects),
                                 _mm512_srai_epi16(load_drawn(row, half), 2));
  };
  sum_granules_of(granules.granule, 2 * count, make, logs);
}

void value_logs(const ErrorPage& page, const ErrorRow* rows, std::size_t count,
                const GranuleTokens& granules, const ValueLengths& lengths,
                const std::uint64_t* valued, std::int16_t* values, std::int16_t* shares) {
  const HalfKeys keys[2] = {HalfKeys(page, 0), HalfKeys(page, 1)};
  const HalfValues halves[2] = {HalfValues(page.value_factors, lengths, valued, 0),
                                HalfValues(page.value_factors, lengths, valued, 1)};
  const auto term = [&](std::size_t i, __m512i drawn, __m512i rest) {
    return _mm512_mask_add_epi16(_mm512_set1_epi16(kNoLog16), half_of(granules.tokens, i % 2), rest,
                                 drawn);
  };
  const auto energy = [&](std::size_t i) {
    const ErrorRow& row = rows[i / 2];
    return term(i, _mm512_srai_epi16(load_drawn(row, i % 2), 2),
                _mm512_add_epi16(keys[i % 2].value_effects(row), halves[i % 2].energies));
  };
  const auto amplitude = [&](std::size_t i) {
    return term(i, _mm512_srai_epi16(load_drawn(rows[i / 2], i % 2), 3), halves[i % 2].amplitudes);
  };
  sum_granules_of(granules.granule, 2 * count, energy, values);
  sum_granules_of(granules.granule, 2 * count, amplitude, shares);
}

void key_errors(const ErrorPage& page, const ErrorRow* rows, const KeyRest* rests,
                std::size_t count, std::int16_t* errors) {
  for (std::size_t half = 0; half < 2; ++half) {
    const HalfKeys keys(page, half);
    __m512i largest = _mm512_set1_epi16(kNoLog16);
    for (std::size_t row = 0; row < count; ++row) {
      const __m512i falls = _mm512_maskz_sub_epi16(0xFFFEFFFE, load_table(rests[row].after),
                                                   load_table(rests[row].before));
      const __m512i own = _mm512_add_epi16(keys.effects(rows[row].key_effects),
                                           _mm512_srai_epi16(load_drawn(rows[row], half), 2));
      const __m512i error =
          _mm512_adds_epi16(_mm512_adds_epi16(own, _mm512_set1_epi16(rests[row].rest)),
                            _mm512_permutexvar_epi16(keys.factors, falls));
      largest = _mm512_max_epi16(largest, error);
    }
    _mm512_store_si512(errors + kHalf * half, largest);
  }
}

void prices(const ErrorPage& page, const ErrorRow* rows, const PriceRest* rests, std::size_t count,
            const ValueLengths& lengths, int planes, std::int16_t* errors) {
  const KernelTables& tables = kernel_tables();
  for (std::size_t half = 0; half < 2; ++half) {
    const HalfKeys keys(page, half);
    const HalfValues values(page.value_factors, lengths, planes, half);
    __m512i largest = _mm512_set1_epi16(kNoLog16);
    for (std::size_t row = 0; row < count; ++row) {
      const __m512i drawn = load_drawn(rows[row], half);
      const __m512i own =
          _mm512_add_epi16(_mm512_srai_epi16(drawn, 2),
                           _mm512_add_epi16(keys.value_effects(rows[row]), values.energies));
      const __m512i energy = _mm512_adds_epi16(own, _mm512_set1_epi16(rests[row].energy));
      const __m512i amplitude =
          _mm512_adds_epi16(_mm512_add_epi16(_mm512_srai_epi16(drawn, 3), values.amplitudes),
                            _mm512_set1_epi16(rests[row].amplitude));
      const __m512i larger = _mm512_max_epi16(energy, amplitude);
      const __m512i index = _mm512_min_epu16(
          _mm512_sub_epi16(larger, _mm512_min_epi16(energy, amplitude)), _mm512_set1_epi16(127));
      const __m512i excess = _mm512_and_si512(
          _mm512_permutex2var_epi8(load(tables.sum_excess), index, load(tables.sum_excess + 64)),
          _mm512_set1_epi16(0xFF));
      largest = _mm512_max_epi16(largest, _mm512_adds_epi16(larger, excess));
    }
    _mm512_store_si512(errors + kHalf * half, largest);
  }
}

/// Numbers by planes as a table.
__m512i load_levels(const std::int16_t* numbers) {
  return _mm512_castsi128_si512(_mm_maskz_loadu_epi16(0x1F, numbers));
}

ChosenGranules choose_planes(const std::int16_t* errors, const std::uint8_t* own, std::size_t count,
                             const PlaneLevels& levels, std::int16_t worth, std::uint8_t* planes) {
  const __m512i falls = load_levels(levels.falls);
  const __m512i worths = _mm512_set1_epi16(worth);
  ChosenGranules chosen{};
  for (std::size_t g = 0; g < count; g += kHalf) {
    const std::size_t left = count - g;
    const auto all = static_cast<__mmask32>(left < kHalf ? (1U << left) - 1 : ~0U);
    const __m512i error = load(errors + g);
    const __m512i now = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(all, own + g));
    const __mmask32 some = _mm512_mask_cmpge_epi16_mask(
        _mm512_mask_cmpneq_epi16_mask(all, error, _mm512_set1_epi16(kNoLog16)), error, worths);
    const __m512i before =
        _mm512_adds_epi16(_mm512_subs_epi16(error, worths), _mm512_permutexvar_epi16(now, falls));
    __m512i next = now;
    for (int more = 2; more <= levels.most; ++more) {
      const __mmask32 reached =
          _mm512_mask_cmpge_epi16_mask(some, before, _mm512_set1_epi16(levels.least[more]));
      next = _mm512_mask_max_epi16(next, reached, next,
                                   _mm512_set1_epi16(static_cast<std::int16_t>(more)));
    }
    const __m512i rest = _mm512_subs_epi16(before, _mm512_permutexvar_epi16(next, falls));
    _mm256_mask_storeu_epi8(planes + g, all, _mm512_cvtepi16_epi8(next));
    chosen.refined |= std::uint64_t{_mm512_cmpneq_epi16_mask(now, next)} << g;
    chosen.rowwise |=
        std::uint64_t{_mm512_mask_cmpge_epi16_mask(some, rest, _mm512_set1_epi16(levels.row_worth))}
        << g;
  }
  return chosen;
}

void worst(const GranuleErrors& errors, std::int16_t* of_granules, std::size_t stride,
           std::int16_t* of_pages, ErrorBins& bins) {
  const __m512i none = _mm512_set1_epi16(kNoLog16);
  const __m512i least = _mm512_set1_epi16(kLeastErrorBin);
  const __m512i most = _mm512_set1_epi16(kMostErrorBin);
  const std::size_t page_errors = errors.rows * errors.count;
  const std::int16_t* own = errors.errors;
  for (std::size_t page = 0; page < errors.pages; ++page, own += page_errors) {
    __m512i of_page = none;
    for (std::size_t g = 0; g < errors.count; g += kHalf) {
      const std::size_t left = errors.count - g < kHalf ? errors.count - g : kHalf;
      const auto all = static_cast<__mmask32>(~0U >> (kHalf - left));
      __m512i largest = none;
      for (std::size_t i = 0; i < errors.some_count; ++i) {
        largest = _mm512_mask_max_epi16(
            largest, all, largest,
            _mm512_maskz_loadu_epi16(all, own + errors.some[i] * errors.count + g));
      }
      _mm512_mask_storeu_epi16(of_granules + page * stride + g, all, largest);
      of_page = _mm512_max_epi16(of_page, largest);
      const __m512i bin = _mm512_sub_epi16(
          _mm512_min_epi16(
              _mm512_max_epi16(
                  _mm512_srai_epi16(_mm512_subs_epi16(largest, _mm512_set1_epi16(errors.cost)), 2),
                  least),
              most),
          least);
      alignas(64) std::uint16_t places[kHalf];
      _mm512_store_si512(places, _mm512_mask_mov_epi16(bin, _mm512_cmpeq_epi16_mask(largest, none),
                                                       _mm512_set1_epi16(kErrorBins)));
      for (std::size_t i = 0; i < left; ++i) ++bins[i % kBinSets][places[i]];
    }
    of_pages[page] = static_cast<std::int16_t>(_mm_extract_epi16(largest_of(of_page), 0));
  }
}

std::uint64_t at_least(const std::int16_t* numbers, std::int16_t least) {
  const __m512i bound = _mm512_set1_epi16(least);
  return _mm512_cmpge_epi16_mask(load(numbers), bound) |
         std::uint64_t{_mm512_cmpge_epi16_mask(load(numbers + kHalf), bound)} << kHalf;
}

ValueSums sum_values(const std::int8_t* mean, std::size_t dim, const std::uint8_t* factors,
                     std::uint64_t tokens, const std::int32_t* lengths) {
  __m512i squares = _mm512_setzero_si512();
  for (std::size_t c = 0; c < dim; c += kHalf) {
    const __m512i own = load_mean(mean, dim, c);
    squares = _mm512_dpwssd_epi32(squares, own, own);
  }
  const __m512i all = load(lengths);
  const __m256i upper = _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 15));
  const __m256i lower =
      _mm512_cvtepi32_epi16(_mm512_and_si512(all, _mm512_set1_epi32((1 << 15) - 1)));
  __m512i uppers = _mm512_setzero_si512();
  __m512i lowers = _mm512_setzero_si512();
  const __m512i one = _mm512_set1_epi16(1);
  for (std::size_t half = 0; half < 2; ++half) {
    const __m512i own = load_factors(factors, half);
    const __mmask32 some = half_of(tokens, half);
    uppers = _mm512_dpwssd_epi32(
        uppers, _mm512_maskz_permutexvar_epi16(some, own, _mm512_broadcast_i64x4(upper)), one);
    lowers = _mm512_dpwssd_epi32(
        lowers, _mm512_maskz_permutexvar_epi16(some, own, _mm512_broadcast_i64x4(lower)), one);
  }
  alignas(16) std::int32_t sums[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(sums),
                  sums_of(squares, uppers, lowers, _mm512_setzero_si512()));
  return {sums[0], std::int64_t{sums[1]} * (1 << 15) + sums[2]};
}

}  // namespace

void avx512::set_error_kernels(PageKernels* kernels) {
  kernels->key_logs = key_logs;
  kernels->value_logs = value_logs;
  kernels->key_errors = key_errors;
  kernels->prices = prices;
  kernels->choose_planes = choose_planes;
  kernels->worst = worst;
  kernels->at_least = at_least;
  kernels->sum_values = sum_values;
}

}  // namespace nearkv

#endif
