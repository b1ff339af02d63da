#include "codes/page_scorer.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codes/code_form.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
constexpr std::int64_t kLeastSpread = 3410;
constexpr int kManyTokens = 12;
constexpr std::int32_t kMostHeard = kLoudMultiplier - 1;

std::int64_t floor_divide(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t quotient = numerator / denominator;
  return quotient - (numerator % denominator < 0 ? 1 : 0);
}

/// Whether no sum of weights of that length is loud by that multiplier.
bool is_surely_quiet(std::int32_t multiplier, std::int32_t length) {
  return multiplier < kMostHeard &&
         std::int64_t{multiplier} * length < std::int64_t{kLoudResidual - 1} << 12;
}

}  // namespace

void PageScorer::begin(CodeState* state, std::size_t dim) {
  state_ = state;
  kernels_ = &page_kernels();
  dim_ = dim;
  factors_.reserve(kTokens);
  sums_.reserve(state->rows() * kTokens);
  half_.reserve(kTokens);
  part_.reserve(kTokens);
  refined_.reserve(state->rows() * kTokens);
  products_.resize(state->rows());
  row_sums_.resize(state->rows());
}

bool PageScorer::scan(std::size_t page) {
  const CodeQuery& query = state_->query();
  const CodedPage& coded = state_->pages()[page];
  if (coded.coded() == 0) return false;
  const CodeQuery::SetRows& set = query.under(coded.sign_set);
  std::uint8_t* const factors = factors_.data();
  kernels_->unpack_factors(coded.keys.factors, factors);
  kernels_->count_factors(factors, coded.visible, counts_.data());
  state_->set_key_factors(page, coded.keys.has_factors());
  unsigned most = kTopFactor;
  while (most > 0 && counts_[most] == 0) --most;

  kernels_->plane_sums(coded.keys.planes[0], dim_, set.tables.get(), state_->rows(), sums_.data());
  kernels_->mean_products(coded.keys.mean, query.halves(), dim_, query.padded(), state_->rows(),
                          products_.data());
  bool is_loud = false;
  for (std::size_t row = 0; row < state_->rows(); ++row) {
    RowPage& scored = state_->row_page(page, row);
    const std::int64_t mean = query.mean_logit(row, products_[row], coded.keys.mean_power);
    is_loud |= std::abs(mean) == kLoudMean;
    scored.octave = static_cast<std::int32_t>(mean >> kCodeLogitBits);
    scored.fraction = static_cast<std::int16_t>(mean & ((1 << kCodeLogitBits) - 1));
    const std::int16_t* const multipliers = query.multipliers(row, set, coded.keys.top, 1);
    const std::int16_t* const sums = sums_.data() + row * kTokens;
    if (!is_surely_quiet(multipliers[most], set.length[row])) {
      std::array<std::int32_t, kTokens> wide;
      std::copy_n(sums, kTokens, wide.data());
      is_loud |= score_row_slowly(page, row, ~std::uint64_t{0}, wide.data(), 1);
      row_sums_[row] = {};
      for_each_bit(coded.visible, [&](std::size_t t) {
        const std::int32_t above = state_->above(page, row)[t];
        row_sums_[row].sum += above;
        row_sums_[row].squares += std::int64_t{above} * above;
      });
      continue;
    }
    row_sums_[row] = kernels_->score(sums, factors, multipliers, scored.fraction, coded.visible,
                                     state_->above(page, row));
  }
  return is_loud;
}

bool PageScorer::score_row_slowly(std::size_t page, std::size_t row, std::uint64_t tokens,
                                  const std::int32_t* sums, int planes) {
  const CodeQuery& query = state_->query();
  const CodedPage& coded = state_->pages()[page];
  std::int16_t* const above = state_->above(page, row);
  const std::int16_t fraction = state_->row_page(page, row).fraction;
  bool is_loud = false;
  for_each_bit(tokens, [&](std::size_t token) {
    const unsigned factor = coded.keys.factor(token);
    std::int32_t multiplier = 0;
    if (factor != 0) {
      multiplier = query.exact_multiplier(
          row, query.under(coded.sign_set),
          coded.keys.top - kKeyCodes.factor_step * (kTopFactor - static_cast<int>(factor)), planes);
    }
    const bool is_visible = (coded.visible >> token & 1) != 0;
    is_loud |= is_visible && multiplier == kLoudMultiplier;
    const std::int64_t product = std::int64_t{sums[token]} * std::min(multiplier, kMostHeard);
    const std::int64_t residual =
        std::clamp<std::int64_t>((product + (1 << 11)) >> 12, -kLoudResidual, kLoudResidual);
    is_loud |= is_visible && std::abs(residual) == kLoudResidual;
    above[token] = static_cast<std::int16_t>(residual + fraction);
  });
  return is_loud;
}

void PageScorer::draw(std::size_t page) {
  const CodedPage& coded = state_->pages()[page];
  const auto tokens = std::int64_t{std::popcount(coded.visible)};
  if (tokens == 0) return;
  const VarianceTables& tables = variance_tables();
  for (std::size_t row = 0; row < state_->rows(); ++row) {
    const auto [sum32, squares] = row_sums_[row];
    const std::int64_t sum = sum32;
    const int lowest = state_->lowest_variance(page, row);
    const std::int32_t* const run = tables.noise.run(lowest);
    std::int32_t noise = counts_[0] * (tables.noise.at(lowest + kKeyVariances[0]) - run[0]);
    for (std::size_t factor = 0; factor < kFactors; ++factor) {
      noise += counts_[factor] * run[factor];
    }
    const std::int64_t deviations = tokens * squares - sum * sum;
    const bool is_whole = tokens == std::int64_t{kTokens};
    const std::int64_t spread =
        is_whole ? deviations >> 12 : floor_divide(deviations, tokens * tokens);
    RowPage& scored = state_->row_page(page, row);
    scored.mean = static_cast<std::int16_t>(is_whole ? sum >> 6 : floor_divide(sum, tokens));
    scored.log_spread =
        static_cast<std::int16_t>(log2_sixteenths(static_cast<std::uint64_t>(
                                      std::max(spread - noise / tokens, kLeastSpread))) -
                                  kVarianceUnit);
  }
  weigh(page);
}

void PageScorer::weigh(std::size_t page) {
  if (state_->pages()[page].visible == 0) return;
  if (!state_->pages()[page].is_coded) {
    for (std::size_t row = 0; row < state_->rows(); ++row) {
      std::copy_n(state_->above(page, row), kTokens, state_->drawn(page, row));
      state_->row_page(page, row).rest = 0;
    }
    return;
  }
  kernels_->unpack_factors(state_->pages()[page].keys.factors, factors_.data());
  for (std::size_t row = 0; row < state_->rows(); ++row) weigh_row(page, row);
}

void PageScorer::weigh_row(std::size_t page, std::size_t row) {
  const VarianceTables& tables = variance_tables();
  const CodedPage& coded = state_->pages()[page];
  const PageReads& reads = state_->reads()[page];
  RowPage& scored = state_->row_page(page, row);
  const int lowest = state_->lowest_variance(page, row);
  kernels_->look_up(factors_.data(), tables.half.run(lowest),
                    tables.half.at(lowest + kKeyVariances[0]), half_.data());
  kernels_->look_up(factors_.data(), tables.part.run(lowest - scored.log_spread),
                    tables.part.at(lowest + kKeyVariances[0] - scored.log_spread), part_.data());
  for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
    const std::uint64_t tokens = reads.refined[planes];
    if (tokens == 0) continue;
    const int own = lowest + kKeyVariances[planes];
    kernels_->look_up_some(factors_.data(), tables.half.run(own), tokens, half_.data());
    kernels_->look_up_some(factors_.data(), tables.part.run(own - scored.log_spread), tokens,
                           part_.data());
  }
  for_each_bit(reads.key_rows, [&](std::size_t token) { half_.data()[token] = 0; });
  const PageWeight weight = kernels_->weigh(
      state_->above(page, row), half_.data(), part_.data(),
      {scored.mean, coded.visible, coded.visible & ~reads.alone()}, state_->drawn(page, row));
  scored.top = weight.top;
  scored.rest = weight.rest;
}

/// Sums over whole planes: cheaper than token by token where they are many.
void PageScorer::sum_planes(const CodedPage& coded, const CodeQuery::SetRows& set, int planes) {
  const std::size_t count = state_->rows() * kTokens;
  std::fill_n(refined_.data(), count, 0);
  for (int plane = 0; plane < planes; ++plane) {
    kernels_->plane_sums(coded.keys.planes[static_cast<std::size_t>(plane)], dim_, set.tables.get(),
                         state_->rows(), sums_.data());
    for (std::size_t i = 0; i < count; ++i) {
      refined_.data()[i] = 2 * refined_.data()[i] + sums_.data()[i];
    }
  }
}

bool PageScorer::refine(std::size_t page, std::uint64_t tokens, int planes) {
  const CodeQuery& query = state_->query();
  const CodedPage& coded = state_->pages()[page];
  const CodeQuery::SetRows& set = query.under(coded.sign_set);
  if (std::popcount(tokens) < kManyTokens) {
    kernels_->refined_sums(
        coded.keys.planes.data(), planes, tokens,
        {set.weights.data(), set.total.data(), state_->rows(), dim_, query.padded()},
        refined_.data());
  } else {
    sum_planes(coded, set, planes);
  }
  const std::int32_t most = (1 << planes) - 1;
  bool is_loud = false;
  for (std::size_t row = 0; row < state_->rows(); ++row) {
    const std::int32_t* const sums = refined_.data() + row * kTokens;
    const std::int16_t* const multipliers = query.multipliers(row, set, coded.keys.top, planes);
    if (!is_surely_quiet(multipliers[kTopFactor], most * set.length[row])) {
      is_loud |= score_row_slowly(page, row, tokens, sums, planes);
      continue;
    }
    std::int16_t* const above = state_->above(page, row);
    const std::int16_t fraction = state_->row_page(page, row).fraction;
    for_each_bit(tokens, [&](std::size_t token) {
      const unsigned factor = coded.keys.factor(token);
      const std::int32_t multiplier = factor == 0 ? 0 : multipliers[factor];
      const std::int64_t product = std::int64_t{sums[token]} * multiplier;
      above[token] = static_cast<std::int16_t>(((product + (1 << 11)) >> 12) + fraction);
    });
  }
  return is_loud;
}

}  // namespace nearkv
