#include "codes/code_errors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codes/code_form.hpp"
#include "codes/exact_logit.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
constexpr std::int64_t kNoLog = -(std::int64_t{1} << 34);
constexpr int kSumBits = 20;
constexpr int kValueLength = 58;
constexpr int kWidest = 24;
constexpr int kShortDistance = 11;  // Octaves between units whose squares fit 64 bits.

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
  values_.reserve(2 * state.pages().size() * rows_ * value_count_);
}

void TokenTerms::begin(const CodeState* state, std::size_t value_dim) {
  state_ = state;
  kernels_ = &page_kernels();
  size_ = value_size(value_dim);
  key_factors_.reserve(kTokens);
  value_factors_.reserve(kTokens);
  for (AlignedNumbers<std::int16_t>* const numbers :
       {&zeros_, &key_effects_, &value_effects_, &falls_, &energies_, &amplitudes_}) {
    numbers->reserve(kTokens);
  }
  std::fill_n(zeros_.data(), kTokens, std::int16_t{0});
}

void TokenTerms::take(std::size_t page) {
  page_ = page;
  const CodedPage& coded = state_->pages()[page];
  kernels_->unpack_factors(coded.keys.factors, key_factors_.data());
  kernels_->unpack_factors(coded.values.factors, value_factors_.data());
}

/// Corrects tokens that more planes are known of.
void TokenTerms::patch(std::size_t row, const VarianceTable<std::int16_t>& table,
                       std::int16_t* effects) const {
  const PageReads& reads = state_->reads()[page_];
  const int lowest = state_->lowest_variance(page_, row);
  for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
    if (reads.refined[planes] == 0) continue;
    kernels_->look_up_some(key_factors_.data(), table.run(lowest + kKeyVariances[planes]),
                           reads.refined[planes], effects);
  }
}

const std::int16_t* TokenTerms::key_effects(std::size_t row) {
  const VarianceTable<std::int16_t>& table = variance_tables().key;
  const int lowest = state_->lowest_variance(page_, row);
  kernels_->look_up(key_factors_.data(), table.run(lowest), table.at(lowest + kKeyVariances[0]),
                    key_effects_.data());
  patch(row, table, key_effects_.data());
  return key_effects_.data();
}

const std::int16_t* TokenTerms::value_effects(std::size_t row) {
  const VarianceTable<std::int16_t>& table = variance_tables().value;
  const int lowest = state_->lowest_variance(page_, row);
  kernels_->look_up(key_factors_.data(), table.run(lowest), table.at(lowest + kKeyVariances[0]),
                    value_effects_.data());
  patch(row, table, value_effects_.data());
  for_each_bit(state_->reads()[page_].key_rows,
               [&](std::size_t t) { value_effects_.data()[t] = 0; });
  return value_effects_.data();
}

const std::int16_t* TokenTerms::falls(std::size_t row, int now, int planes) {
  if (now == planes) return zeros();
  const VarianceTable<std::int16_t>& table = variance_tables().excess;
  const int lowest = state_->lowest_variance(page_, row);
  const std::int16_t* const before =
      table.run(lowest + kKeyVariances[static_cast<std::size_t>(now)]);
  const std::int16_t* const after =
      table.run(lowest + kKeyVariances[static_cast<std::size_t>(planes)]);
  std::array<std::int16_t, kFactors> falls;
  for (std::size_t factor = 0; factor < kFactors; ++factor) {
    falls[factor] = static_cast<std::int16_t>(after[factor] - before[factor]);
  }
  kernels_->look_up(key_factors_.data(), falls.data(), 0, falls_.data());
  return falls_.data();
}

/// By factor.
TokenTerms::LengthTables TokenTerms::length_tables(int planes) const {
  const int residual = 2 * state_->pages()[page_].values.top + size_;
  const int remainder = kValueRemainders[static_cast<std::size_t>(planes)];
  LengthTables tables;
  for (int factor = 0; factor <= kTopFactor; ++factor) {
    const int length = 8 * (factor - kTopFactor);
    const int left = factor == 0 ? 0 : remainder;
    const auto at = static_cast<std::size_t>(factor);
    tables.energies[at] = static_cast<std::int16_t>(length + left);
    tables.amplitudes[at] =
        static_cast<std::int16_t>(length / 2 + ((residual + left) >> 1) - (residual >> 1));
  }
  return tables;
}

TokenTerms::Lengths TokenTerms::lengths(int planes) {
  const LengthTables tables = length_tables(planes);
  kernels_->look_up(value_factors_.data(), tables.energies.data(), tables.energies[0],
                    energies_.data());
  kernels_->look_up(value_factors_.data(), tables.amplitudes.data(), tables.amplitudes[0],
                    amplitudes_.data());
  return {energies_.data(), amplitudes_.data()};
}

TokenTerms::Lengths TokenTerms::lengths() {
  const Lengths all = lengths(0);
  const PageReads& reads = state_->reads()[page_];
  for (int planes = 2; planes <= NKV_VALUE_CODE_PLANES; ++planes) {
    const std::uint64_t tokens = reads.valued[static_cast<std::size_t>(planes)];
    if (tokens == 0) continue;
    const LengthTables tables = length_tables(planes);
    kernels_->look_up_some(value_factors_.data(), tables.energies.data(), tokens, energies_.data());
    kernels_->look_up_some(value_factors_.data(), tables.amplitudes.data(), tokens,
                           amplitudes_.data());
  }
  return all;
}

void GranuleMeasure::begin(const CodeState* state, std::size_t value_dim) {
  state_ = state;
  kernels_ = &page_kernels();
  value_dim_ = value_dim;
  tokens_.begin(state, value_dim);
  factors_.reserve(kTokens);
}

ValueScale GranuleMeasure::scale_of(std::size_t page) {
  const CodedPage& coded = state_->pages()[page];
  ValueScale scale;
  scale.residual = scale.spread = kNothing;
  for (std::size_t c = 0; c < value_dim_; ++c) {
    scale.squares += std::int64_t{coded.values.mean[c]} * coded.values.mean[c];
  }
  if (coded.coded() == 0 || !coded.values.has_factors()) return scale;
  kernels_->unpack_factors(coded.values.factors, factors_.data());
  std::array<std::int32_t, kFactors> counts;
  kernels_->count_factors(factors_.data(), coded.visible, counts.data());
  scale.residual = 2 * coded.values.top + value_size(value_dim_);
  std::int64_t lengths = 0;
  for (int factor = 0; factor <= kTopFactor; ++factor) {
    lengths += counts[static_cast<std::size_t>(factor)] *
               octaves_fixed(8 * (factor - kTopFactor), kSumBits);
  }
  scale.spread = log_of(static_cast<std::uint64_t>(lengths / std::popcount(coded.visible))) -
                 16 * kSumBits + scale.residual;
  return scale;
}

void GranuleMeasure::measure(std::size_t page, bool has_residuals, GranuleLogs* logs) {
  const std::uint64_t coded = state_->pages()[page].coded();
  if (coded == 0) return;
  const PageReads& reads = state_->reads()[page];
  const std::size_t key_granule = state_->key_granules().tokens;
  const std::size_t value_granule = state_->value_granules().tokens;
  tokens_.take(page);
  const TokenTerms::Lengths lengths =
      has_residuals ? tokens_.lengths() : TokenTerms::Lengths{nullptr, nullptr};
  for (std::size_t row = 0; row < state_->rows(); ++row) {
    const std::int16_t* const drawn = state_->drawn(page, row);
    kernels_->granule_logs({drawn, 2, tokens_.key_effects(row), tokens_.zeros()},
                           coded & ~reads.key_rows, key_granule, logs->keys(page, row));
    if (!has_residuals) {
      std::fill_n(logs->values(page, row), 2 * state_->value_granules().count, kNoLog16);
      continue;
    }
    const std::uint64_t without_row = coded & ~reads.value_rows;
    kernels_->granule_logs({drawn, 2, tokens_.value_effects(row), lengths.energies}, without_row,
                           value_granule, logs->values(page, row));
    kernels_->granule_logs({drawn, 3, lengths.amplitudes, tokens_.zeros()}, without_row,
                           value_granule, logs->shares(page, row));
  }
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

int mean_distance(const CodedPage& page, const ValueScale& scale, std::int64_t products,
                  const RowGoal& goal) {
  // Of mean * 2^above - o * 2^below, one of which is 0; what is beyond all bits of the other is not
  // there.
  const int apart = page.values.mean_power - goal.power;
  const int above = std::clamp(apart, 0, kWidest);
  const int below = std::clamp(-apart, 0, kWidest);
  if (above <= kShortDistance && below <= kShortDistance) {
    const std::int64_t distance = (scale.squares << (2 * above)) + (goal.squares << (2 * below)) -
                                  products * (std::int64_t{2} << (above + below));
    const int unit = std::min(page.values.mean_power, goal.power);
    const int log = log_of(static_cast<std::uint64_t>(distance));
    return log_sum(is_nothing(log) ? kNothing : log + 32 * unit, scale.spread);
  }
  Int128 distance = 0;
  if (apart >= -kWidest) distance += Int128{scale.squares} << (2 * above);
  if (apart <= kWidest) distance += Int128{goal.squares} << (2 * below);
  if (std::abs(apart) <= kWidest) distance -= Int128{products} * (Int128{2} << (above + below));
  const int unit = apart > kWidest    ? page.values.mean_power - kWidest
                   : apart < -kWidest ? goal.power - kWidest
                                      : std::min(page.values.mean_power, goal.power);
  return log_sum(distance == 0 ? kNothing : log_of(distance) + 32 * unit, scale.spread);
}

float error_bound(float error, std::int64_t total) {
  if (total == kMostError) return std::numeric_limits<float>::infinity();
  return error * std::sqrt(std::ldexp(static_cast<float>(total), -24));
}

}  // namespace nearkv
