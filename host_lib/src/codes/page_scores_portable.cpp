// Scores of a page's tokens (ARITHMETIC.md, section 12): sums over planes, and what factors make
// of them.
#include <array>

#include "codes/page_kernels_portable.hpp"
#include "codes/round_row.hpp"
#include "codes/transform.hpp"

namespace nearkv::portable {
namespace {

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

RowWeights round_weights(const std::int32_t* exact, std::size_t dim, std::int16_t* weights) {
  return round_row(std::span(exact, dim), weights);
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

}  // namespace

void set_score_kernels(PageKernels* kernels) {
  kernels->unpack_factors = unpack_factors;
  kernels->hadamard = hadamard_block<std::int32_t>;
  kernels->plane_sums = plane_sums;
  kernels->mean_products = mean_products;
  kernels->round_weights = round_weights;
  kernels->tabulate = tabulate;
  kernels->score = score;
  kernels->look_up_some = look_up_some;
}

}  // namespace nearkv::portable
