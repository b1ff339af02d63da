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
constexpr std::int32_t kMostHeard = kLoudMultiplier - 1;

/// Of rows and pages in which no residual says anything.
constexpr std::array<std::int16_t, kFactors> kNoMultipliers{};

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
  tables_ = &draw_tables();
  dim_ = dim;
  sums_.reserve(state->rows() * kTokens);
  refined_.reserve(state->rows() * kTokens);
  drawn_.reserve(state->rows() * kTokens);
  refined_rows_.resize(state->rows());
  products_.resize(state->rows());
  scored_rows_.resize(state->rows());
  row_sums_.resize(state->rows());
  drawn_rows_.resize(state->rows());
  weights_.resize(state->rows());
}

bool PageScorer::scan(std::size_t page) {
  const CodeQuery& query = state_->query();
  const CodedPage& coded = state_->pages()[page];
  if (coded.coded() == 0) return false;
  const CodeQuery::SetRows& set = query.under(coded.sign_set);
  const std::size_t rows = state_->rows();
  const bool has_factors = coded.keys.has_factors();
  state_->set_key_factors(page, has_factors);
  kernels_->plane_sums(coded.keys.planes[0], dim_, set.tables.data(), rows, sums_.data());
  kernels_->mean_products(coded.keys.mean, query.halves(), dim_, query.padded(), rows,
                          products_.data());
  bool is_loud = false;
  RowPage* const scored = &state_->row_page(page, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t mean = query.mean_logit(row, products_[row], coded.keys.mean_power);
    is_loud |= std::abs(mean) == kLoudMean;
    scored[row].octave = static_cast<std::int32_t>(mean >> kCodeLogitBits);
    scored[row].fraction = static_cast<std::int16_t>(mean & ((1 << kCodeLogitBits) - 1));
    ScoredRow& terms = scored_rows_[row];
    terms.multipliers = kNoMultipliers.data();
    if (has_factors && !query.is_zero(row)) {
      terms.multipliers = query.multipliers(row, set, coded.keys.top, 1);
    }
    terms.noise = tables_->noise.of(state_->lowest_variance(page, row));
    terms.fraction = scored[row].fraction;
  }
  kernels_->score(sums_.data(), {coded.keys.factors, coded.visible}, scored_rows_.data(), rows,
                  state_->above(page, 0), row_sums_.data());
  for (std::size_t row = 0; row < rows; ++row) {
    if (row_sums_[row].may_be_loud || scored_rows_[row].multipliers[kTopFactor] == kMostHeard) {
      is_loud |= score_loud_row(page, row);
    }
  }
  return is_loud;
}

/// Scores a row again that may be loud. Returns whether it is.
bool PageScorer::score_loud_row(std::size_t page, std::size_t row) {
  std::array<std::int32_t, kTokens> sums;
  std::copy_n(sums_.data() + row * kTokens, kTokens, sums.data());
  const bool is_loud = score_row_slowly(page, row, ~std::uint64_t{0}, sums.data(), 1);
  const std::int16_t* const above = state_->above(page, row);
  ScoreSums& totals = row_sums_[row];
  totals.sum = 0;
  totals.squares = 0;
  for_each_bit(state_->pages()[page].visible, [&](std::size_t t) {
    totals.sum += above[t];
    totals.squares += std::int64_t{above[t]} * above[t];
  });
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

void PageScorer::draw(std::size_t page, bool keeps_drawn) {
  const CodedPage& coded = state_->pages()[page];
  const auto tokens = std::int64_t{std::popcount(coded.visible)};
  if (tokens == 0) return;
  const bool is_whole = tokens == std::int64_t{kTokens};
  RowPage* const scored = &state_->row_page(page, 0);
  for (std::size_t row = 0; row < state_->rows(); ++row) {
    const std::int64_t sum = row_sums_[row].sum;
    const std::int64_t noise = row_sums_[row].noise;
    const std::int64_t deviations = tokens * row_sums_[row].squares - sum * sum;
    const std::int64_t spread = is_whole
                                    ? (deviations >> 12) - (noise >> 6)
                                    : floor_divide(deviations, tokens * tokens) - noise / tokens;
    scored[row].mean = static_cast<std::int16_t>(is_whole ? sum >> 6 : floor_divide(sum, tokens));
    scored[row].log_spread = static_cast<std::int16_t>(
        log2_sixteenths(static_cast<std::uint64_t>(std::max(spread, kLeastSpread))) -
        kVarianceUnit);
  }
  weigh_coded(page, keeps_drawn ? state_->drawn(page, 0) : drawn_.data());
}

void PageScorer::weigh(std::size_t page) {
  const CodedPage& coded = state_->pages()[page];
  const std::size_t rows = state_->rows();
  if (coded.visible == 0) return;
  if (!coded.is_coded) {
    std::copy_n(state_->above(page, 0), rows * kTokens, state_->drawn(page, 0));
    for (std::size_t row = 0; row < rows; ++row) state_->row_page(page, row).rest = 0;
    return;
  }
  weigh_coded(page, state_->drawn(page, 0));
}

void PageScorer::weigh_coded(std::size_t page, std::int16_t* drawn) {
  const CodedPage& coded = state_->pages()[page];
  const std::size_t rows = state_->rows();
  const PageReads& reads = state_->reads()[page];
  RowPage* const scored = &state_->row_page(page, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    find_tables(reads, state_->lowest_variance(page, row), scored[row], &drawn_rows_[row]);
  }
  kernels_->weigh(state_->above(page, 0),
                  {coded.keys.factors, coded.visible, coded.visible & ~reads.alone(),
                   reads.key_rows, reads.refined.data()},
                  drawn_rows_.data(), rows, drawn, weights_.data());
  for (std::size_t row = 0; row < rows; ++row) {
    scored[row].top = weights_[row].top;
    scored[row].rest = weights_[row].rest;
  }
}

void PageScorer::find_tables(const PageReads& reads, int lowest, const RowPage& scored,
                             DrawnRow* drawn) const {
  drawn->mean = scored.mean;
  drawn->half[0] = tables_->half.of(lowest);
  drawn->part[0] = tables_->part.of(lowest - scored.log_spread);
  for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
    if (reads.refined[planes] == 0) continue;
    const int own = lowest + kKeyVariances[planes];
    drawn->half[planes - 1] = tables_->half.of(own);
    drawn->part[planes - 1] = tables_->part.of(own - scored.log_spread);
  }
}

bool PageScorer::refine(std::size_t page, const PlaneTokens& tokens) {
  const CodeQuery& query = state_->query();
  const CodedPage& coded = state_->pages()[page];
  const CodeQuery::SetRows& set = query.under(coded.sign_set);
  const std::size_t rows = state_->rows();
  kernels_->refined_sums({coded.keys.planes.data(), tokens.data(), dim_},
                         {set.weights.data(), set.total.data(), rows, query.padded()},
                         refined_.data());
  bool are_all_quiet = true;
  for (std::size_t row = 0; row < rows; ++row) {
    RefinedRow& refined = refined_rows_[row];
    refined.fraction = state_->row_page(page, row).fraction;
    for (std::size_t planes = 2; planes < tokens.size(); ++planes) {
      refined.multipliers[planes] = kNoMultipliers.data();
      if (tokens[planes] == 0) continue;
      const std::int32_t most = (1 << planes) - 1;
      const std::int16_t* const multipliers =
          query.multipliers(row, set, coded.keys.top, static_cast<int>(planes));
      const bool is_quiet = is_surely_quiet(multipliers[kTopFactor], most * set.length[row]);
      if (is_quiet) refined.multipliers[planes] = multipliers;
      are_all_quiet &= is_quiet;
    }
  }
  kernels_->rescore(refined_.data(), coded.keys.factors, tokens.data(), refined_rows_.data(), rows,
                    state_->above(page, 0));
  return !are_all_quiet && refine_slow_rows(page, tokens);
}

/// Scores tokens anew that have no multipliers. Returns whether one is loud.
bool PageScorer::refine_slow_rows(std::size_t page, const PlaneTokens& tokens) {
  bool is_loud = false;
  for (std::size_t row = 0; row < state_->rows(); ++row) {
    for (std::size_t planes = 2; planes < tokens.size(); ++planes) {
      if (refined_rows_[row].multipliers[planes] != kNoMultipliers.data()) continue;
      is_loud |= score_row_slowly(page, row, tokens[planes], refined_.data() + row * kTokens,
                                  static_cast<int>(planes));
    }
  }
  return is_loud;
}

}  // namespace nearkv
