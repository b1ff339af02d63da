#include "codes/code_errors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codes/code_form.hpp"
#include "codes/exact_logit.hpp"

namespace nearkv {
namespace {

constexpr std::int64_t kNoLog = -(std::int64_t{1} << 34);
constexpr int kSumBits = 20;
constexpr int kValueLength = 58;
constexpr int kWidest = 24;

/// beta: what planes leave of a value residual's energy.
constexpr std::array<int, NKV_VALUE_CODE_PLANES + 1> kValueRemainders = {0, -13, -45, -73};

/// |r|^2 by factor.
const std::array<std::int32_t, kFactors>& fixed_lengths() {
  static const auto table = [] {
    std::array<std::int32_t, kFactors> lengths{};
    for (int factor = 0; factor <= kTopFactor; ++factor) {
      lengths[static_cast<std::size_t>(factor)] =
          static_cast<std::int32_t>(octaves_fixed(8 * (factor - kTopFactor), kSumBits));
    }
    return lengths;
  }();
  return table;
}

int log_of(std::uint64_t number) { return number == 0 ? kNothing : log2_sixteenths(number); }

int log_of(Int128 number) {
  int dropped = 0;
  for (; number >> 63 != 0; number >>= 1) ++dropped;
  return log_of(static_cast<std::uint64_t>(number)) + 16 * dropped;
}

std::int64_t fine_log_of(std::uint64_t number) { return number == 0 ? kNoLog : log2_fixed(number); }

}  // namespace

int value_size(std::size_t value_dim) {
  return log_of(static_cast<std::uint64_t>(value_dim)) + 16 * log2_last_block(value_dim) +
         kValueLength;
}

void GranuleLogs::reset(const CodeState& state) {
  rows_ = state.rows();
  key_count_ = state.key_granules().count;
  value_count_ = state.value_granules().count;
  keys_.reserve(state.pages().size() * rows_ * key_count_);
  values_.reserve(state.pages().size() * rows_ * value_count_);
  shares_.reserve(state.pages().size() * rows_ * value_count_);
}

ErrorPage error_page(const CodeState& state, std::size_t page) {
  const CodedPage& coded = state.pages()[page];
  const PageReads& reads = state.reads()[page];
  return {coded.keys.factors, coded.values.factors, reads.key_rows, reads.refined.data()};
}

ErrorRow error_row(const CodeState& state, std::size_t page, std::size_t row) {
  const ErrorTables& tables = error_tables();
  const PageReads& reads = state.reads()[page];
  const int lowest = state.lowest_variance(page, row);
  ErrorRow made;
  made.drawn = state.drawn(page, row);
  made.key_effects[0] = tables.key.of(lowest);
  made.value_effects[0] = tables.value.of(lowest);
  if ((reads.refined[2] | reads.refined[3] | reads.refined[4]) == 0) return made;
  for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
    const int own = lowest + kKeyVariances[planes];
    made.key_effects[planes - 1] = tables.key.of(own);
    made.value_effects[planes - 1] = tables.value.of(own);
  }
  return made;
}

ValueLengths value_lengths(std::size_t value_dim) {
  // A page's rho is this and an even number.
  const int residual = value_size(value_dim);
  ValueLengths lengths{};
  for (std::size_t planes = 0; planes < kValueRemainders.size(); ++planes) {
    for (int factor = 0; factor <= kTopFactor; ++factor) {
      const int length = 8 * (factor - kTopFactor);
      const int left = factor == 0 ? 0 : kValueRemainders[planes];
      lengths.energies[planes][factor] = static_cast<std::int16_t>(length + left);
      lengths.amplitudes[planes][factor] =
          static_cast<std::int16_t>(length / 2 + ((residual + left) >> 1) - (residual >> 1));
    }
  }
  return lengths;
}

void GranuleMeasure::begin(const CodeState* state, std::size_t value_dim) {
  state_ = state;
  kernels_ = &page_kernels();
  value_dim_ = value_dim;
  lengths_ = value_lengths(value_dim);
  rows_.resize(state->rows());
}

ValueScale GranuleMeasure::scale_of(std::size_t page) {
  const CodedPage& coded = state_->pages()[page];
  ValueScale scale;
  const ValueSums sums = kernels_->sum_values(coded.values.mean, value_dim_, coded.values.factors,
                                              coded.visible, fixed_lengths().data());
  scale.squares = sums.squares;
  scale.residual = scale.spread = kNothing;
  if (coded.coded() == 0 || !coded.values.has_factors()) return scale;
  scale.residual = 2 * coded.values.top + value_size(value_dim_);
  scale.spread = log_of(static_cast<std::uint64_t>(sums.lengths / std::popcount(coded.visible))) -
                 16 * kSumBits + scale.residual;
  return scale;
}

void GranuleMeasure::measure(std::size_t page, const Changes& changes, GranuleLogs* logs) {
  const std::uint64_t coded = state_->pages()[page].coded();
  const PageReads& reads = state_->reads()[page];
  const std::size_t rows = state_->rows();
  for (std::size_t row = 0; row < rows; ++row) rows_[row] = error_row(*state_, page, row);
  const ErrorPage errors = error_page(*state_, page);
  if (changes.keys) {
    kernels_->key_logs(errors, rows_.data(), rows,
                       {coded & ~reads.key_rows, state_->key_granules().tokens}, logs->keys(page));
  }
  kernels_->value_logs(
      errors, rows_.data(), rows,
      {changes.has_residuals ? coded & ~reads.value_rows : 0, state_->value_granules().tokens},
      lengths_, reads.valued.data(), logs->values(page), logs->shares(page));
}

void set_goal(const CodeSums& sums, std::size_t row, int value_exponent, const ErrorDemand& demand,
              RowGoal* goal) {
  std::int64_t largest = 0;
  for (const std::int64_t sum : sums.values(row)) largest = std::max(largest, std::abs(sum));
  const auto z = static_cast<std::uint64_t>(sums.z[row]);
  const int z_power = static_cast<int>(std::bit_width(z)) - 16;
  const auto z_top = static_cast<std::int64_t>(z_power >= 0 ? z >> z_power : z << -z_power);
  const std::int64_t reciprocal = (std::int64_t{1} << 31) / z_top;
  const int shift = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest))) - 15;
  goal->output.resize(sums.dim);
  goal->squares = 0;
  for (std::size_t c = 0; c < sums.dim; ++c) {
    const std::int64_t sum = sums.values(row)[c];
    const std::int64_t magnitude = std::abs(sum);
    const std::int64_t kept = shift >= 0 ? magnitude >> shift : magnitude << -shift;
    const std::int64_t value = (sum < 0 ? -kept : kept) * reciprocal >> 16;
    goal->output[c] = static_cast<std::int16_t>(value);
    goal->squares += value * value;
  }
  goal->power = shift - z_power - 15 + value_exponent - 126;

  const auto bits = std::bit_cast<std::uint32_t>(demand.error);
  const std::uint64_t significand = bits >> 23 == 0 ? 0 : (bits & 0x7FFFFF) | 0x800000;
  const int exponent = static_cast<int>(bits >> 23);
  const std::int64_t log =
      2 * (fine_log_of(significand) - fine_log_of(demand.z16) + fine_log_of(z)) +
      fine_log_of(static_cast<std::uint64_t>(goal->squares));
  const std::int64_t octaves = exponent - 146 + sums.reference[row] - 41 + goal->power;
  goal->goal = (log >> 20) + 32 * octaves;
}

int mean_distance(int mean_power, const ValueScale& scale, std::int64_t products,
                  const RowGoal& goal) {
  // Of mean * 2^above - o * 2^below, one of which is 0; what is beyond all bits of the other is not
  // there.
  const int apart = mean_power - goal.power;
  const int above = std::clamp(apart, 0, kWidest);
  const int below = std::clamp(-apart, 0, kWidest);
  Int128 distance = 0;
  if (apart >= -kWidest) distance += Int128{scale.squares} << (2 * above);
  if (apart <= kWidest) distance += Int128{goal.squares} << (2 * below);
  if (std::abs(apart) <= kWidest) distance -= Int128{products} * (Int128{2} << (above + below));
  const int unit = apart > kWidest    ? mean_power - kWidest
                   : apart < -kWidest ? goal.power - kWidest
                                      : std::min(mean_power, goal.power);
  return log_sum(distance == 0 ? kNothing : log_of(distance) + 32 * unit, scale.spread);
}

float error_bound(float error, std::int64_t total) {
  if (total == kMostError) return std::numeric_limits<float>::infinity();
  return error * std::sqrt(std::ldexp(static_cast<float>(total), -24));
}

}  // namespace nearkv
