#include "estimate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "rows.hpp"

namespace nearkv::model {

namespace {

// Beyond these the formulas of section 8 would leave binary64's range. A weight e^1000 above every
// other, or a spread e^64, settle a token's fate long before.
constexpr double kLargestLogWeight = 1000.0;
constexpr double kLargestLogVariance = 64.0;

double squared_distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

// A residual that overflowed binary32 is as large as one can be; a forged one must not be negative.
double usable_residual(float residual) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  return residual >= 0.0f ? static_cast<double>(std::min(residual, kLargest)) : 0.0;
}

}  // namespace

double norm_of(std::span<const double> vector) {
  double sum = 0;
  for (const double element : vector) sum += element * element;
  return std::sqrt(sum);
}

std::vector<double> value_numbers(std::span<const int32_t> integers, int value_exponent) {
  std::vector<double> numbers;
  for (const int32_t integer : integers) {
    numbers.push_back(std::ldexp(static_cast<double>(integer), value_exponent - 150));
  }
  return numbers;
}

Estimate::Estimate(const TailState& state)
    : state_(&state),
      rows_(state.rows()),
      pages_(state.pages().size()),
      weights_(state.rows() * state.pages().size() * NKV_PAGE_TOKENS) {
  for (size_t page = 0; page < pages_.size(); ++page) take_page(page);
  for (size_t row = 0; row < rows_.size(); ++row) take_weights(row);
  take_outputs();
  for (size_t row = 0; row < rows_.size(); ++row) {
    for (size_t page = 0; page < pages_.size(); ++page) judge_page(row, page);
  }
}

uint64_t Estimate::rest_tokens() const {
  uint64_t tokens = 0;
  for (const Page& page : pages_) tokens += static_cast<uint64_t>(std::popcount(page.rest));
  return tokens;
}

double Estimate::weight_of_logit(size_t row, int64_t logit) const {
  const double log2 =
      static_cast<double>(logit) / 65536.0 - static_cast<double>(rows_[row].reference);
  return std::exp2(std::min(log2, kLargestLogWeight));
}

void Estimate::take_page(size_t page) {
  Page& taken = pages_[page];
  taken.rest = state_->rest(page);
  taken.rows.resize(rows_.size());
  taken.residual2 = usable_residual(state_->pages()[page].page.header().v_residual);
  const double tokens = std::max(std::popcount(taken.rest), 1);
  const int exponent = state_->task().input.exponents.value;
  for (const int64_t sum : state_->rest_value_sum(page)) {
    taken.mean_value.push_back(std::ldexp(static_cast<double>(sum), exponent - 150) / tokens);
  }
}

void Estimate::take_weights(size_t row) {
  Row& taken = rows_[row];
  taken.reference = state_->largest_integer_part(row);
  for (size_t page = 0; page < pages_.size(); ++page) {
    PageRow& page_row = pages_[page].rows[row];
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(state_->pages()[page].visible, token)) continue;
      const double weight = weight_of_logit(row, state_->logit(row, page, token));
      weights_[slot(row, page, token)] = weight;
      taken.sum += weight;
      if (has_token(pages_[page].rest, token)) page_row.sum_weight += weight;
    }
    page_row.mean_weight = page_row.sum_weight / std::max(std::popcount(pages_[page].rest), 1);
  }
}

// O^ = (Σ exact p·v + Σ pages (Σ rest p)·v^) / Z.
void Estimate::take_outputs() {
  const size_t value_dim = state_->task().command.value_dim;
  const int exponent = state_->task().input.exponents.value;
  for (Row& row : rows_) row.output.assign(value_dim, 0.0);
  const auto add = [&](size_t row, double weight, std::span<const double> value) {
    for (size_t c = 0; c < value_dim; ++c) rows_[row].output[c] += weight * value[c];
  };
  for (size_t page = 0; page < pages_.size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(state_->exact(page), token)) continue;
      const auto integers = value_row(state_->pages()[page].page, token, exponent);
      const auto value = value_numbers(integers, exponent);
      for (size_t row = 0; row < rows_.size(); ++row) add(row, weight(row, page, token), value);
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      add(row, pages_[page].rows[row].sum_weight, pages_[page].mean_value);
    }
  }
  for (Row& row : rows_) {
    for (double& element : row.output) element /= row.sum;
    row.norm = norm_of(row.output);
  }
}

void Estimate::judge_page(size_t row, size_t page) {
  const AttendTask& task = state_->task();
  PageRow& judged = pages_[page].rows[row];
  judged.distance2 = squared_distance(pages_[page].mean_value, rows_[row].output);
  // The residual of a code cell of 64 weight units' width, as a natural logit.
  const double unit = std::ldexp(
      static_cast<double>(task.command.scale),
      task.input.query.exponent(row) + task.input.exponents.key - 301 + NKV_PLANE_WEIGHT_SHIFT + 6);
  const auto squares = static_cast<double>(state_->midpoints().radius_terms(row, page).squares);
  judged.weight_factor = std::expm1(std::min(unit * unit * squares / 12.0, kLargestLogVariance));
}

double Estimate::contribution2(size_t row, size_t page, uint32_t token) const {
  const PageRow& judged = pages_[page].rows[row];
  const double p = weight(row, page, token);
  const double residual2 = pages_[page].residual2;
  const double centred = p - judged.mean_weight;
  const double numerator =
      centred * centred * residual2 + p * p * judged.weight_factor * (judged.distance2 + residual2);
  return numerator / (rows_[row].sum * rows_[row].sum);
}

}  // namespace nearkv::model
