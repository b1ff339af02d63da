#include "codes/page_kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>

#include "codes/code_form.hpp"
#include "codes/page_rows.hpp"
#include "codes/transform.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;

bool has(std::uint64_t tokens, std::size_t token) { return (tokens >> token & 1) != 0; }

std::int16_t saturate(std::int32_t value) {
  return static_cast<std::int16_t>(std::clamp<std::int32_t>(
      value, std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max()));
}

void unpack_factors(const std::uint8_t* packed, std::uint8_t* factors) {
  for (std::size_t pair = 0; pair < kTokens / 2; ++pair) {
    factors[2 * pair] = packed[pair] & 15;
    factors[2 * pair + 1] = packed[pair] >> 4;
  }
}

std::int16_t plane_sum(const std::uint8_t* bits, std::size_t words, const std::int16_t* tables) {
  std::int32_t sum = 0;
  std::uint32_t rest = 0;
  const auto add = [&](std::uint32_t index) {
    sum += tables[index & (kTableEntries - 1)];
    tables += kTableEntries;
  };
  for (std::size_t word = 0; word < words; ++word) {
    const std::uint32_t all = bits[2 * word] | std::uint32_t{bits[2 * word + 1]} << 8;
    for (std::size_t group = 0; group < 3; ++group) add(all >> (kTableBits * group));
    rest = rest << 1 | all >> 15;
    if (word % kTableBits == kTableBits - 1 || word + 1 == words) add(rest);
  }
  return static_cast<std::int16_t>(sum);
}

void plane_sums(const std::uint8_t* plane, std::size_t dim, const std::int16_t* tables,
                std::size_t rows, std::int16_t* sums) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int16_t* const own = tables + row * plane_tables(dim) * kTableEntries;
    for (std::size_t t = 0; t < kTokens; ++t) {
      sums[row * kTokens + t] = plane_sum(plane + t * dim / 8, dim / 16, own);
    }
  }
}

void mean_products(const std::int8_t* mean, const std::int16_t* halves, std::size_t dim,
                   std::size_t padded, std::size_t rows, MeanSums* sums) {
  for (std::size_t row = 0; row < rows; ++row, halves += 2 * padded) {
    sums[row] = {};
    for (std::size_t c = 0; c < dim; ++c) {
      sums[row].upper += mean[c] * halves[c];
      sums[row].lower += mean[c] * halves[padded + c];
    }
  }
}

/// What five weights add to a sum, by their bits.
void tabulate_five(const std::int16_t* weights, std::int16_t* table) {
  table[0] = 0;
  for (std::size_t i = 0; i < kTableBits; ++i) table[0] -= weights[i];
  for (std::size_t bits = 1; bits < kTableEntries; ++bits) {
    const auto lowest = static_cast<std::size_t>(std::countr_zero(bits));
    table[bits] = static_cast<std::int16_t>(table[bits & (bits - 1)] + 2 * weights[lowest]);
  }
}

void tabulate(const std::int16_t* weights, std::size_t dim, std::int16_t* tables) {
  std::array<std::int16_t, kTableBits> rest{};
  const auto add = [&](const std::int16_t* five) {
    tabulate_five(five, tables);
    tables += kTableEntries;
  };
  for (std::size_t word = 0; word < dim / 16; ++word) {
    const std::int16_t* const own = weights + 16 * word;
    for (std::size_t group = 0; group < 3; ++group) add(own + kTableBits * group);
    std::shift_right(rest.begin(), rest.end(), 1);
    rest[0] = own[15];
    if (word % kTableBits != kTableBits - 1 && word + 1 != dim / 16) continue;
    add(rest.data());
    rest.fill(0);
  }
}

unsigned factor_of(const std::uint8_t* factors, std::size_t token) {
  return factors[token / 2] >> (token % 2 * 4) & 15U;
}

bool score_row(const std::int16_t* sums, const ScoredPage& page, const ScoredRow& row,
               std::int16_t* above, ScoreSums* totals) {
  bool may_be_loud = false;
  *totals = {};
  for (std::size_t t = 0; t < kTokens; ++t) {
    const unsigned factor = factor_of(page.factors, t);
    const std::int32_t m = factor == 0 ? 0 : row.multipliers[factor];
    const std::int32_t product = sums[t] * m;
    const std::int32_t upper = product >> 16;
    may_be_loud |= upper < -kQuietProduct || upper >= kQuietProduct;
    above[t] = static_cast<std::int16_t>(((product + (1 << 11)) >> 12) + row.fraction);
    if (!has(page.visible, t)) continue;
    const auto square = static_cast<std::uint32_t>(above[t] * above[t]);
    totals->sum += above[t];
    totals->noise += row.noise[factor];
    totals->lower_squares += square & 0xFFFF;
    totals->upper_squares += square >> 16;
  }
  return may_be_loud;
}

bool score(const std::int16_t* sums, const ScoredPage& page, const ScoredRow* rows,
           std::size_t count, std::int16_t* above, ScoreSums* totals) {
  bool may_be_loud = false;
  for (std::size_t row = 0; row < count; ++row) {
    may_be_loud |=
        score_row(sums + row * kTokens, page, rows[row], above + row * kTokens, totals + row);
  }
  return may_be_loud;
}

void look_up_some(const std::uint8_t* factors, const std::int16_t* table, std::uint64_t tokens,
                  std::int16_t* numbers) {
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (has(tokens, t) && factors[t] != 0) numbers[t] = table[factors[t]];
  }
}

void token_weights(const std::int16_t* drawn, std::int32_t top, std::uint16_t* weights) {
  const auto& mantissas = weight_mantissas();
  for (std::size_t t = 0; t < kTokens; ++t) {
    const std::int32_t below = top - (drawn[t] >> 7);
    weights[t] = below < 0 || below > 15
                     ? std::uint16_t{0}
                     : static_cast<std::uint16_t>(
                           mantissas[static_cast<std::size_t>(drawn[t] & 127)] >> below);
  }
}

std::uint64_t coded_shares(const std::int16_t* drawn, std::int32_t top, const std::int16_t* factors,
                           std::uint16_t* shares) {
  token_weights(drawn, top, shares);
  std::uint64_t some = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const auto factor = static_cast<std::uint16_t>(factors[t]);
    shares[t] = static_cast<std::uint16_t>((std::uint32_t{shares[t]} * factor) >> 17);
    some |= std::uint64_t{shares[t] != 0 ? 1U : 0U} << t;
  }
  return some;
}

/// Planes of K that a token was scored by, of which more than one say nothing without a factor.
std::size_t planes_of(const std::uint64_t* refined, unsigned factor, std::size_t token) {
  if (factor == 0) return 1;
  std::size_t planes = NKV_KEY_CODE_PLANES;
  while (planes > 1 && !has(refined[planes], token)) --planes;
  return planes;
}

PageWeight weigh_row(const std::int16_t* above, const DrawnPage& page, const DrawnRow& row,
                     std::int16_t* drawn) {
  PageWeight result{std::numeric_limits<std::int16_t>::min(), 0};
  for (std::size_t t = 0; t < kTokens; ++t) {
    const unsigned factor = factor_of(page.factors, t);
    const std::size_t planes = planes_of(page.refined, factor, t);
    const std::int32_t half = has(page.exact, t) ? 0 : row.half[planes - 1][factor];
    const std::int32_t distance = saturate(above[t] + half - row.mean);
    const std::int32_t moved =
        row.mean + ((distance * row.part[planes - 1][factor] + (1 << 14)) >> 15);
    const std::int32_t score = std::clamp(moved, above[t] - half, above[t] + half);
    drawn[t] = static_cast<std::int16_t>(score);
    if (has(page.visible, t)) result.top = std::max(result.top, score >> 7);
  }
  std::array<std::uint16_t, kTokens> weights;
  token_weights(drawn, result.top, weights.data());
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (has(page.rest, t)) result.rest += weights[t];
  }
  return result;
}

void weigh(const std::int16_t* above, const DrawnPage& page, const DrawnRow* rows,
           std::size_t count, std::int16_t* drawn, PageWeight* weights) {
  for (std::size_t row = 0; row < count; ++row) {
    weights[row] = weigh_row(above + row * kTokens, page, rows[row], drawn + row * kTokens);
  }
}

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

/// Calls use(token, planes) for the tokens of which at least two planes are read.
template <typename Use>
void for_each_refined(const PlaneRows& rows, int most, const Use& use) {
  for (int planes = 2; planes <= most; ++planes) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      if (has(rows.tokens[planes], t)) use(t, planes);
    }
  }
}

/// Whether a plane has a bit of a token set.
bool is_set(const PlaneRows& rows, int plane, std::size_t token, std::size_t channel) {
  return (rows.planes[plane][token * (rows.dim / 8) + channel / 8] >> (channel % 8) & 1) != 0;
}

void refined_sums(const PlaneRows& keys, const WeightRows& weights, std::int32_t* sums) {
  for_each_refined(keys, NKV_KEY_CODE_PLANES, [&](std::size_t token, int planes) {
    for (std::size_t row = 0; row < weights.rows; ++row) {
      const std::int16_t* const own = weights.weights + row * weights.padded;
      std::int32_t sum = 0;
      for (int plane = 0; plane < planes; ++plane) {
        sum *= 2;
        for (std::size_t c = 0; c < keys.dim; ++c) {
          sum += is_set(keys, plane, token, c) ? own[c] : -own[c];
        }
      }
      sums[row * kTokens + token] = sum;
    }
  });
}

void rescore(const std::int32_t* sums, const std::uint8_t* factors, const std::uint64_t* tokens,
             const RefinedRow* refined, std::size_t rows, std::int16_t* above) {
  std::array<std::uint8_t, kTokens> own;
  unpack_factors(factors, own.data());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        if (!has(tokens[planes], t)) continue;
        const std::int32_t m = own[t] == 0 ? 0 : refined[row].multipliers[planes][own[t]];
        const std::int32_t residual = (sums[row * kTokens + t] * m + (1 << 11)) >> 12;
        above[row * kTokens + t] = static_cast<std::int16_t>(residual + refined[row].fraction);
      }
    }
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

std::uint64_t at_least(const std::int16_t* numbers, std::int16_t least) {
  std::uint64_t some = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    some |= std::uint64_t{numbers[t] >= least ? 1U : 0U} << t;
  }
  return some;
}

std::int16_t largest(const std::int16_t* scores, std::uint64_t tokens) {
  std::int16_t largest = kNoLog16;
  for (std::size_t t = 0; t < kTokens; ++t) {
    if (has(tokens, t)) largest = std::max(largest, scores[t]);
  }
  return largest;
}

void add_means(const WeightedMeans& means, std::int64_t* acc) {
  for (std::size_t at = 0; at < means.pages * means.rows; ++at) {
    const std::int8_t* const mean = means.means[at / means.rows];
    std::int64_t* const own = acc + at % means.rows * means.dim;
    const int left = std::max(-means.shifts[at], 0);
    const int right = std::max(means.shifts[at], 0);
    for (std::size_t c = 0; c < means.dim; ++c) {
      own[c] += (std::int64_t{means.weights[at]} * mean[c] * (1 << left)) >> right;
    }
  }
}

void add_value(const std::int32_t* value, std::size_t dim, std::int32_t weight, int shift,
               std::int64_t* acc) {
  for (std::size_t c = 0; c < dim; ++c) acc[c] += (std::int64_t{weight} * value[c]) >> shift;
}

void add_signed(const std::int32_t* numbers, const std::int16_t* minus, std::size_t dim,
                std::int32_t mantissa, int power, int most, std::int64_t* acc) {
  const int left = std::max(power, 0);
  const int right = std::max(-power, 0);
  const std::int64_t largest = std::int64_t{1} << (most - left);
  for (std::size_t c = 0; c < dim; ++c) {
    const std::int64_t number = (numbers[c] ^ minus[c]) - minus[c];
    acc[c] +=
        std::clamp((number * mantissa) >> right, -largest, largest) * (std::int64_t{1} << left);
  }
}

void expand_delta4(const std::uint8_t* row, const std::uint8_t* exponents, std::size_t dim,
                   std::uint16_t* expanded) {
  for (std::size_t c = 0; c < dim; ++c) {
    const unsigned nibble = row[dim + c / 2] >> (c % 2 * 4) & 15U;
    const unsigned bits =
        unsigned{row[c]} >> 7 << 15 | (exponents[c] + nibble) << 7 | (row[c] & 0x7FU);
    expanded[c] = static_cast<std::uint16_t>(nibble == 0 ? 0 : bits);
  }
}

void align_bf16(const std::uint16_t* row, std::size_t dim, int exponent, std::int32_t* value) {
  for (std::size_t c = 0; c < dim; ++c) {
    const int own = row[c] >> 7 & 0xFF;
    const bool is_none = own == 0 || own == 0xFF;
    const int significand = is_none ? 0 : ((row[c] & 0x7F) | 0x80) << 16;
    // An element above its list's exponent is a forged page's.
    const int magnitude = significand >> std::clamp(exponent - own, 0, 31);
    value[c] = row[c] >> 15 != 0 ? -magnitude : magnitude;
  }
}

void coded_sums(const PlaneRows& values, const std::uint16_t* shares, std::size_t rows,
                std::int32_t* sums) {
  std::fill_n(sums, rows * values.dim, 0);
  for_each_refined(values, NKV_VALUE_CODE_PLANES, [&](std::size_t token, int planes) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int32_t share = shares[row * kTokens + token];
      std::int32_t* const own = sums + row * values.dim;
      for (int plane = 0; plane < planes; ++plane) {
        const std::int32_t part = share << (NKV_VALUE_CODE_PLANES - 1 - plane);
        for (std::size_t c = 0; c < values.dim; ++c) {
          own[c] += is_set(values, plane, token, c) ? part : -part;
        }
      }
    }
  });
}

void output_products(const std::int8_t* const* means, std::size_t pages, const std::int16_t* output,
                     std::size_t dim, std::int64_t* products) {
  for (std::size_t page = 0; page < pages; ++page) {
    products[page] = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      products[page] += std::int64_t{means[page][c]} * output[c];
    }
  }
}

void mean_distances(const DistantMeans& means, std::int32_t* distances) {
  for (std::size_t page = 0; page < means.pages; ++page) {
    // Of mean * 2^above - o * 2^below, one of which is 0.
    const int apart = means.powers[page] - means.output_power;
    const int above = std::max(apart, 0);
    const int below = std::max(-apart, 0);
    const std::int64_t distance = (means.squares[page] << (2 * above)) +
                                  (means.output_squares << (2 * below)) -
                                  means.products[page] * (std::int64_t{2} << (above + below));
    const int unit = std::min(means.powers[page], means.output_power);
    const int log = distance == 0
                        ? kNothing
                        : log2_sixteenths(static_cast<std::uint64_t>(distance)) + 32 * unit;
    distances[page] = log_sum(log, means.spreads[page]);
  }
}

std::int16_t in_16_bits(std::int32_t energy) {
  return static_cast<std::int16_t>(std::clamp(energy, kNoLog16 + 1, 32767));
}

std::uint64_t power_of(std::int32_t energy) {
  return static_cast<std::uint64_t>(octaves_fixed(std::clamp(energy, -1024, 320), 24));
}

void total(const GranuleTerms& terms, std::int16_t* keys, std::int16_t* prices,
           GranuleTotals* totals) {
  for (std::size_t i = 0; i < terms.pages * terms.rows; ++i) {
    GranuleTotals& own = totals[i % terms.rows];
    for (std::size_t g = i * terms.key_count; g < (i + 1) * terms.key_count; ++g) {
      keys[g] = kNoLog16;
      if (terms.keys[g] == kNoLog16 || is_nothing(terms.of_keys[i])) continue;
      keys[g] = in_16_bits(terms.keys[g] + terms.of_keys[i]);
      own.energy += power_of(terms.keys[g] + terms.of_keys[i]);
    }
    for (std::size_t number = 0; number < terms.value_count; ++number) {
      const std::size_t g = i * terms.value_count + number;
      prices[g] = kNoLog16;
      if (terms.values[g] == kNoLog16) continue;
      const std::int32_t value = terms.values[g] + terms.of_values[i];
      const std::int32_t share = terms.shares[g] + terms.of_shares[i];
      const bool has_planes = terms.planes[i / terms.rows * terms.value_count + number] != 0;
      const std::int32_t price =
          log_sum(value, share + (has_planes ? kCoherenceOfCodes : kCoherenceOfNone));
      prices[g] = in_16_bits(price);
      own.energy += power_of(has_planes ? value : price);
      if (has_planes) own.coherent += power_of(share);
    }
  }
}

}  // namespace

const PageKernels& portable_page_kernels() {
  static constexpr PageKernels kKernels{
      .unpack_factors = unpack_factors,
      .sum_values = sum_values,
      .hadamard = hadamard_block<std::int32_t>,
      .plane_sums = plane_sums,
      .mean_products = mean_products,
      .mean_logits = mean_logits,
      .spreads = spreads,
      .tabulate = tabulate,
      .score = score,
      .look_up_some = look_up_some,
      .weigh = weigh,
      .coded_shares = coded_shares,
      .key_logs = key_logs,
      .value_logs = value_logs,
      .largest = largest,
      .add_means = add_means,
      .add_value = add_value,
      .add_signed = add_signed,
      .expand_delta4 = expand_delta4,
      .align_bf16 = align_bf16,
      .coded_sums = coded_sums,
      .output_products = output_products,
      .mean_distances = mean_distances,
      .refined_sums = refined_sums,
      .rescore = rescore,
      .key_errors = key_errors,
      .prices = prices,
      .choose_planes = choose_planes,
      .at_least = at_least,
      .total = total,
  };
  return kKernels;
}

const KernelTables& kernel_tables() {
  static const KernelTables tables = [] {
    KernelTables made{};
    std::ranges::copy(weight_mantissas(), made.mantissas);
    std::ranges::copy(kOctaves, made.wide_octaves);
    std::ranges::copy(log_sum_excess(), made.sum_excess);
    for (std::size_t i = 0; i < 32; ++i) {
      made.fractions[i] =
          static_cast<std::int16_t>(i % 16 == 0 ? kOctaves[0] << 3 : kOctaves[16 - i % 16] << 2);
      made.before_steps[i] =
          static_cast<std::uint16_t>(i < kLogSteps.size() ? kLogSteps[i] - 1 : 65535U);
      made.first_steps[i] = kFirstLogStep[i];
    }
    return made;
  }();
  return tables;
}

const PageKernels& page_kernels() {
  static const PageKernels& kernels = [&]() -> const PageKernels& {
    const PageKernels* const avx512 = avx512_page_kernels();
    return avx512 != nullptr ? *avx512 : portable_page_kernels();
  }();
  return kernels;
}

}  // namespace nearkv
