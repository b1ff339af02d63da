#include "codes/page_scorer.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>

#include "codes/code_form.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
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
  const std::size_t all_rows = kPagesAtATime * state->rows();
  sums_.reserve(all_rows * kTokens);
  refined_.reserve(state->rows() * kTokens);
  drawn_.reserve(state->rows() * kTokens);
  refined_rows_.resize(state->rows());
  lowest_.resize(all_rows);
  mean_sums_.resize(all_rows);
  powers_.resize(all_rows);
  octaves_.resize(all_rows);
  fractions_.resize(all_rows);
  means_.resize(all_rows);
  log_spreads_.resize(all_rows);
  scored_rows_.resize(all_rows);
  row_sums_.resize(all_rows);
  drawn_rows_.resize(all_rows);
  weights_.resize(state->rows());
}

bool PageScorer::scan(std::size_t first, std::size_t end) {
  const std::size_t rows = state_->rows();
  pages_.clear();
  for (std::size_t page = first; page < end; ++page) {
    if (state_->pages()[page].coded() != 0) pages_.push_back(page);
  }
  const CodeQuery& query = state_->query();
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const CodedPage& coded = state_->pages()[pages_[i]];
    kernels_->plane_sums(coded.keys.planes[0], dim_, query.under(coded.sign_set).tables.data(),
                         rows, sums_.data() + i * rows * kTokens);
  }
  bool is_loud = scale();
  for (std::size_t i = 0; i < pages_.size(); ++i) is_loud |= score(i);
  return is_loud;
}

/// Finds by what sums become scores. Returns whether a mean is loud.
bool PageScorer::scale() {
  const CodeQuery& query = state_->query();
  const std::size_t rows = state_->rows();
  std::size_t at = 0;
  for (const std::size_t page : pages_) {
    const CodedPage& coded = state_->pages()[page];
    const CodeQuery::SetRows& set = query.under(coded.sign_set);
    const bool has_factors = coded.keys.has_factors();
    state_->set_key_factors(page, has_factors);
    kernels_->mean_products(coded.keys.mean, query.halves(), dim_, query.padded(), rows,
                            &mean_sums_[at]);
    for (std::size_t row = 0; row < rows; ++row, ++at) {
      const bool is_flat = !has_factors || query.is_zero(row);
      powers_[at] = query.mean_power(row) + coded.keys.mean_power;
      lowest_[at] = state_->lowest_variance(page, row);
      scored_rows_[at].noise = tables_->noise.of(lowest_[at]);
      scored_rows_[at].multipliers =
          is_flat ? kNoMultipliers.data() : query.multipliers(row, set, coded.keys.top, 1);
    }
  }
  const bool is_loud = kernels_->mean_logits({.sums = mean_sums_.data(),
                                              .powers = powers_.data(),
                                              .factor = query.factor(),
                                              .count = at,
                                              .octaves = octaves_.data(),
                                              .fractions = fractions_.data()});
  at = 0;
  for (const std::size_t page : pages_) {
    RowPage* const scored = &state_->row_page(page, 0);
    for (std::size_t row = 0; row < rows; ++row, ++at) {
      scored[row].octave = octaves_[at];
      scored[row].fraction = scored_rows_[at].fraction = fractions_[at];
    }
  }
  return is_loud;
}

/// Scores a page. Returns whether a score is loud.
bool PageScorer::score(std::size_t place) {
  const std::size_t rows = state_->rows();
  const std::size_t page = pages_[place];
  const CodedPage& coded = state_->pages()[page];
  const std::span scored = std::span(scored_rows_).subspan(place * rows, rows);
  const bool may_be_loud =
      kernels_->score(sums_.data() + place * rows * kTokens, {coded.keys.factors, coded.visible},
                      scored.data(), rows, state_->above(page, 0), &row_sums_[place * rows]);
  const auto is_capped = [](const ScoredRow& row) {
    return row.multipliers[kTopFactor] == kMostHeard;
  };
  if (!may_be_loud && !std::ranges::any_of(scored, is_capped)) return false;
  bool is_loud = false;
  for (std::size_t row = 0; row < rows; ++row) is_loud |= score_loud_row(place, row);
  return is_loud;
}

/// Scores a row of a page again that may be loud. Returns whether it is.
bool PageScorer::score_loud_row(std::size_t place, std::size_t row) {
  const std::size_t rows = state_->rows();
  const std::size_t page = pages_[place];
  std::array<std::int32_t, kTokens> sums;
  std::copy_n(sums_.data() + (place * rows + row) * kTokens, kTokens, sums.data());
  const bool is_loud = score_row_slowly(page, row, ~std::uint64_t{0}, sums.data(), 1);
  const std::int16_t* const above = state_->above(page, row);
  ScoreSums& totals = row_sums_[place * rows + row];
  totals = {.noise = totals.noise};
  for_each_bit(state_->pages()[page].visible, [&](std::size_t t) {
    const auto square = static_cast<std::uint32_t>(above[t] * above[t]);
    totals.sum += above[t];
    totals.lower_squares += square & 0xFFFF;
    totals.upper_squares += square >> 16;
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

void PageScorer::draw(bool keeps_drawn) {
  const std::size_t rows = state_->rows();
  find_spreads();
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    weigh_coded(pages_[i], &drawn_rows_[i * rows],
                keeps_drawn ? state_->drawn(pages_[i], 0) : drawn_.data());
  }
}

/// Finds mu and tau of pages, and their tables.
void PageScorer::find_spreads() {
  const std::size_t rows = state_->rows();
  kernels_->spreads(row_sums_.data(), pages_.size() * rows, means_.data(), log_spreads_.data());
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const std::uint64_t visible = state_->pages()[pages_[i]].visible;
    if (visible != ~std::uint64_t{0}) find_part_spreads(i, std::popcount(visible));
    RowPage* const scored = &state_->row_page(pages_[i], 0);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t at = i * rows + row;
      DrawnRow& drawn = drawn_rows_[at];
      scored[row].mean = drawn.mean = means_[at];
      scored[row].log_spread = log_spreads_[at];
      drawn.half[0] = tables_->half.of(lowest_[at]);
      drawn.part[0] = tables_->part.of(lowest_[at] - log_spreads_[at]);
    }
  }
}

/// The same of a page of which only so many tokens are visible.
void PageScorer::find_part_spreads(std::size_t place, std::int64_t tokens) {
  const std::size_t rows = state_->rows();
  for (std::size_t at = place * rows; at < (place + 1) * rows; ++at) {
    const ScoreSums& sums = row_sums_[at];
    const std::int64_t sum = sums.sum;
    const std::int64_t squares = sums.lower_squares + (std::int64_t{sums.upper_squares} << 16);
    const std::int64_t spread =
        floor_divide(tokens * squares - sum * sum, tokens * tokens) - sums.noise / tokens;
    means_[at] = static_cast<std::int16_t>(floor_divide(sum, tokens));
    log_spreads_[at] = static_cast<std::int16_t>(
        log2_sixteenths(static_cast<std::uint64_t>(std::max<std::int64_t>(spread, kLeastSpread))) -
        kVarianceUnit);
  }
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
  const PageReads& reads = state_->reads()[page];
  for (std::size_t row = 0; row < rows; ++row) {
    find_tables(reads, state_->lowest_variance(page, row), state_->row_page(page, row),
                &drawn_rows_[row]);
  }
  weigh_coded(page, drawn_rows_.data(), state_->drawn(page, 0));
}

void PageScorer::weigh_coded(std::size_t page, const DrawnRow* drawn_rows, std::int16_t* drawn) {
  const CodedPage& coded = state_->pages()[page];
  const std::size_t rows = state_->rows();
  const PageReads& reads = state_->reads()[page];
  kernels_->weigh(state_->above(page, 0),
                  {coded.keys.factors, coded.visible, coded.visible & ~reads.alone(),
                   reads.key_rows, reads.refined.data()},
                  drawn_rows, rows, drawn, weights_.data());
  RowPage* const scored = &state_->row_page(page, 0);
  for (std::size_t row = 0; row < rows; ++row) scored[row].take(weights_[row]);
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
