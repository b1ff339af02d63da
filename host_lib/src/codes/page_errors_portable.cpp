// Errors of a page's granules and tokens, and what is worth reading (ARITHMETIC.md, sections 13.4
// to 13.6).
#include <algorithm>
#include <array>
#include <span>

#include "codes/code_form.hpp"
#include "codes/page_kernels_portable.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv::portable {
namespace {

ValueSums sum_values(const std::int8_t* mean, std::size_t dim, const std::uint8_t* factors,
                     std::uint64_t tokens, const std::int32_t* lengths) {
  ValueSums sums{};
  for (std::size_t c = 0; c < dim; ++c) sums.squares += std::int64_t{mean[c]} * mean[c];
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (has(tokens, t)) sums.lengths += lengths[factor_of(factors, t)];
  }
  return sums;
}

/// KE or VE of a token.
std::int16_t effect_of(const ErrorPage& page, const std::int16_t* const* effects,
                       std::size_t token) {
  const unsigned factor = factor_of(page.key_factors, token);
  return effects[planes_of(page.refined, factor, token) - 1][factor];
}

using Terms = std::array<std::int32_t, kTokens>;

/// lg of the sum of 2^terms over each granule.
void sum_terms(const Terms& terms, const GranuleTokens& granules, std::int16_t* logs) {
  for (std::size_t first = 0; first < kTokens; first += granules.granule) {
    const std::span some = std::span(terms).subspan(first, granules.granule);
    const std::int32_t largest = std::ranges::max(some);
    std::int16_t& log = logs[first / granules.granule];
    log = kNoLog16;
    if (largest == kNoLog16) continue;
    std::uint32_t sum = 0;
    for (const std::int32_t term : some) {
      const std::int32_t below = term - largest;
      const auto mantissa =
          static_cast<std::uint32_t>(kOctaves[static_cast<std::size_t>(below & 15)]) << 3;
      sum += mantissa >> std::min(-(below >> 4), 31);
    }
    log = static_cast<std::int16_t>(largest + log2_sixteenths(sum) - 16 * 14);
  }
}

void key_logs(const ErrorPage& page, const ErrorRow* rows, std::size_t count,
              const GranuleTokens& granules, std::int16_t* logs) {
  Terms terms;
  for (std::size_t row = 0; row < count; ++row, logs += kTokens / granules.granule) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      terms[t] = has(granules.tokens, t)
                     ? (rows[row].drawn[t] >> 2) + effect_of(page, rows[row].key_effects, t)
                     : kNoLog16;
    }
    sum_terms(terms, granules, logs);
  }
}

/// VE of a token.
std::int16_t value_effect_of(const ErrorPage& page, const ErrorRow& row, std::size_t token) {
  return has(page.key_rows, token) ? std::int16_t{0} : effect_of(page, row.value_effects, token);
}

void value_logs(const ErrorPage& page, const ErrorRow* rows, std::size_t count,
                const GranuleTokens& granules, const ValueLengths& lengths,
                const std::uint64_t* valued, std::int16_t* values, std::int16_t* shares) {
  Terms energies;
  Terms amplitudes;
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      energies[t] = amplitudes[t] = kNoLog16;
      if (!has(granules.tokens, t)) continue;
      const std::size_t planes = has(valued[2], t) ? 2 : has(valued[3], t) ? 3 : 0;
      const unsigned factor = factor_of(page.value_factors, t);
      const std::int16_t drawn = rows[row].drawn[t];
      energies[t] =
          (drawn >> 2) + value_effect_of(page, rows[row], t) + lengths.energies[planes][factor];
      amplitudes[t] = (drawn >> 3) + lengths.amplitudes[planes][factor];
    }
    const std::size_t at = row * (kTokens / granules.granule);
    sum_terms(energies, granules, values + at);
    sum_terms(amplitudes, granules, shares + at);
  }
}

void key_errors(const ErrorPage& page, const ErrorRow* rows, const KeyRest* rests,
                std::size_t count, std::int16_t* errors) {
  std::fill_n(errors, kTokens, kNoLog16);
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      const unsigned factor = factor_of(page.key_factors, t);
      const int fall = factor == 0 ? 0 : rests[row].after[factor] - rests[row].before[factor];
      const std::int16_t error = saturate(
          (rows[row].drawn[t] >> 2) + effect_of(page, rows[row].key_effects, t) + rests[row].rest);
      errors[t] = std::max(errors[t], saturate(error + fall));
    }
  }
}

void prices(const ErrorPage& page, const ErrorRow* rows, const PriceRest* rests, std::size_t count,
            const ValueLengths& lengths, int planes, std::int16_t* errors) {
  std::fill_n(errors, kTokens, kNoLog16);
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      const unsigned factor = factor_of(page.value_factors, t);
      const std::int16_t drawn = rows[row].drawn[t];
      const std::int16_t energy = saturate((drawn >> 2) + value_effect_of(page, rows[row], t) +
                                           lengths.energies[planes][factor] + rests[row].energy);
      const std::int16_t amplitude =
          saturate((drawn >> 3) + lengths.amplitudes[planes][factor] + rests[row].amplitude);
      errors[t] = std::max(errors[t], saturate(log_sum(energy, amplitude)));
    }
  }
}

ChosenGranules choose_planes(const std::int16_t* errors, const std::uint8_t* own, std::size_t count,
                             const PlaneLevels& levels, std::int16_t worth, std::uint8_t* planes) {
  ChosenGranules chosen{};
  for (std::size_t g = 0; g < count; ++g) {
    planes[g] = own[g];
    if (errors[g] == kNoLog16 || errors[g] < worth) continue;
    const int error = errors[g] - worth + levels.falls[own[g]];
    for (int more = 2; more <= levels.most; ++more) {
      if (error >= levels.least[more]) {
        planes[g] = std::max(planes[g], static_cast<std::uint8_t>(more));
      }
    }
    const std::uint64_t bit = std::uint64_t{1} << g;
    if (planes[g] != own[g]) chosen.refined |= bit;
    if (error - levels.falls[planes[g]] >= levels.row_worth) chosen.rowwise |= bit;
  }
  return chosen;
}

void worst(const GranuleErrors& errors, std::int16_t* of_granules, std::size_t stride,
           std::int16_t* of_pages, ErrorBins& bins) {
  for (std::size_t page = 0; page < errors.pages; ++page, of_granules += stride) {
    of_pages[page] = kNoLog16;
    for (std::size_t g = 0; g < errors.count; ++g) {
      std::int16_t largest = kNoLog16;
      for (std::size_t i = 0; i < errors.some_count; ++i) {
        const std::size_t at = (page * errors.rows + errors.some[i]) * errors.count + g;
        largest = std::max(largest, errors.errors[at]);
      }
      of_granules[g] = largest;
      of_pages[page] = std::max(of_pages[page], largest);
      const int bin = std::clamp((largest - errors.cost) >> 2, kLeastErrorBin, kMostErrorBin);
      ++bins[g % kBinSets]
            [largest == kNoLog16 ? kErrorBins : static_cast<std::size_t>(bin - kLeastErrorBin)];
    }
  }
}

std::uint64_t at_least(const std::int16_t* numbers, std::int16_t least) {
  std::uint64_t some = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    some |= std::uint64_t{numbers[t] >= least ? 1U : 0U} << t;
  }
  return some;
}

}  // namespace

void set_error_kernels(PageKernels* kernels) {
  kernels->key_logs = key_logs;
  kernels->value_logs = value_logs;
  kernels->key_errors = key_errors;
  kernels->prices = prices;
  kernels->choose_planes = choose_planes;
  kernels->worst = worst;
  kernels->at_least = at_least;
  kernels->sum_values = sum_values;
}

}  // namespace nearkv::portable
