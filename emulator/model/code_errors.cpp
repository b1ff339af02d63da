#include "code_errors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr int kNoLog = -(1 << 14);  // lg₁₆ 0
constexpr uint8_t kUsualSixteenths = 24;
constexpr int kSumBits = 20;
constexpr int kTotalBits = 24;
constexpr int kMostEnergy = 320;  // 20 octaves.
constexpr int kValueLength = 58;  // lg₁₆ of g² of V.
constexpr int64_t kCoherentParts = 640;
constexpr int kWidest = 24;  // Octaves between a mean's unit and an output's.

int log_of(uint64_t number) { return number == 0 ? kNoLog : log2_sixteenths(number); }

int log_of(Int128 number) {
  int dropped = 0;
  for (; number >> 63 != 0; number >>= 1) ++dropped;
  return log_of(static_cast<uint64_t>(number)) + 16 * dropped;
}

// Σ 2^x
int log_sum_of(std::span<const int> terms) {
  int largest = kNothing;
  for (const int term : terms) largest = std::max(largest, term);
  if (largest <= kNothing) return kNothing;
  int64_t sum = 0;
  for (const int term : terms) sum += octaves_fixed(std::max(term - largest, -1024), kSumBits);
  return largest + log_of(static_cast<uint64_t>(sum)) - 16 * kSumBits;
}

int64_t power_of(int energy) {
  return octaves_fixed(std::clamp(energy, -1024, kMostEnergy), kTotalBits);
}

// log2 with 24 fraction bits (4.1), of 0 as kNoLog.
int64_t fine_log_of(uint64_t number) {
  return number == 0 ? int64_t{kNoLog} << 20 : log2_fixed(number);
}

}  // namespace

int log_sum(int x, int y) {
  static const auto table = [] {
    std::array<int, 96> entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      const long double smaller = std::exp2(-static_cast<long double>(i) / 16);
      entries[i] = static_cast<int>(std::lround(16 * std::log2(1 + smaller)));
    }
    return entries;
  }();
  const auto distance = static_cast<size_t>(std::abs(x - y));
  return std::max(x, y) + (distance < table.size() ? table[distance] : 0);
}

int coherence(int planes) { return planes == 0 ? -35 : -75; }

int value_remainder(int planes) {
  constexpr std::array<int, NKV_VALUE_CODE_PLANES + 1> kRemainders = {0, -13, -45, -73};
  return kRemainders[static_cast<size_t>(planes)];
}

CodeErrors::Output CodeErrors::output_of(const RowSoftmax& sums, int value_exponent) {
  int64_t largest = 0;
  for (const int64_t sum : sums.acc()) largest = std::max(largest, std::abs(sum));
  Output output;
  const TopBits z = top_bits(static_cast<uint64_t>(sums.z()), 16);
  const int64_t reciprocal = (int64_t{1} << 31) / static_cast<int64_t>(z.top);
  const int shift = static_cast<int>(std::bit_width(static_cast<uint64_t>(largest))) - 15;
  for (const int64_t sum : sums.acc()) {
    const int64_t magnitude = std::abs(sum);
    const int64_t kept = shift >= 0 ? magnitude >> shift : magnitude << -shift;
    const int64_t value = (sum < 0 ? -kept : kept) * reciprocal >> 16;
    output.values.push_back(value);
    output.squares += value * value;
  }
  output.power = shift - z.power - 15 + value_exponent - 126;
  return output;
}

CodeErrors::CodeErrors(const AttendTask& task, const CodeScores& scores, const CodeWeights& weights,
                       const CodeReads& reads, size_t row, const RowSoftmax& sums)
    : task_(task), scores_(scores), weights_(weights), reads_(reads), row_(row) {
  const Output output = output_of(sums, task.input.exponents.value);
  const uint8_t z = task.command.z == 0 ? kUsualSixteenths : task.command.z;
  const Number error = decode_binary32(std::bit_cast<uint32_t>(task.command.error));
  const int64_t goal =
      2 * (fine_log_of(static_cast<uint64_t>(error.significand)) - fine_log_of(uint64_t{z}) +
           fine_log_of(static_cast<uint64_t>(sums.z()))) +
      fine_log_of(static_cast<uint64_t>(output.squares));
  const int64_t octaves = 2 * (error.exponent - 150 + 4 + sums.reference() - 41 + output.power);
  goal_ = static_cast<int>((goal >> 20) + 16 * octaves);
  for (size_t page = 0; page < scores.list().size(); ++page) {
    pages_.push_back(scale_of(page, output));
  }
  total_ = measure();
}

CodeErrors::PageScale CodeErrors::scale_of(size_t page, const Output& output) const {
  const StoredCodes values = scores_.list().values(page);
  const int channels = static_cast<int>(values.channels());
  const int size = log_of(static_cast<uint64_t>(channels)) +
                   16 * log2_last_block(values.channels()) + kValueLength;
  PageScale scale{.distance = kNothing,
                  .residual = 2 * values.top() + size,
                  .is_coded = values.has_residuals()};
  int64_t mean_squares = 0;
  int64_t products = 0;
  for (uint32_t channel = 0; channel < values.channels(); ++channel) {
    const int64_t mean = values.mean(channel);
    mean_squares += mean * mean;
    products += mean * output.values[channel];
  }
  const int unit = std::max(output.power, values.mean_power() - kWidest);
  const int above = std::max(values.mean_power() - unit, -kWidest);
  const Int128 distance = (Int128{mean_squares} << (2 * (kWidest + above))) -
                          (Int128{products} * (Int128{1} << (2 * kWidest + above + 1))) +
                          (Int128{output.squares} << (2 * kWidest));
  scale.distance = log_of(std::max<Int128>(distance, 0)) - 32 * kWidest + 32 * unit;
  if (!scale.is_coded) return scale;

  int64_t lengths = 0;
  int64_t tokens = 0;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(scores_.list().pages()[page].visible, token)) continue;
    const int factor = values.factor(token).value_or(values.lowest_factor());
    lengths += octaves_fixed(2 * (factor - values.top()), kSumBits);
    ++tokens;
  }
  if (tokens == 0) return scale;
  scale.distance = log_sum(scale.distance, log_of(static_cast<uint64_t>(lengths / tokens)) -
                                               16 * kSumBits + scale.residual);
  return scale;
}

// |r|²
int CodeErrors::residual(size_t page, uint32_t token) const {
  if (!pages_[page].is_coded) return kNothing;
  const StoredCodes values = scores_.list().values(page);
  const int factor = values.factor(token).value_or(values.lowest_factor());
  return pages_[page].residual + 2 * (factor - values.top());
}

// What is left of it by planes; nothing if the value row was read.
int CodeErrors::residual(size_t page, uint32_t token, int planes) const {
  const int whole = residual(page, token);
  if (whole <= kNothing || has_token(reads_.values.rows[page], token)) return kNothing;
  const bool has_factor = scores_.list().values(page).factor(token).has_value();
  return whole + (has_factor ? value_remainder(planes) : 0);
}

// q
int CodeErrors::energy(size_t page, uint32_t token) const {
  return static_cast<int>((weights_.score(row_, page, token) >> 2) +
                          32 * scores_.octave(row_, page) - goal_);
}

int CodeErrors::key(size_t page, uint32_t token, int planes) const {
  const std::optional<int> variance = scores_.variance(row_, page, token);
  if (!variance) return kNothing;
  const int now = reads_.keys.planes_of(page, token);
  const bool refines = planes != now && scores_.list().keys(page).factor(token).has_value();
  const int change =
      refines ? kKeyVariances[static_cast<size_t>(planes)] - kKeyVariances[static_cast<size_t>(now)]
              : 0;
  const VarianceEffects effects = variance_effects(*variance);
  const int fall = variance_effects(*variance + change).excess - effects.excess;
  return energy(page, token) + effects.key + pages_[page].distance + fall;
}

int CodeErrors::value(size_t page, uint32_t token, int planes) const {
  const int left = residual(page, token, planes);
  if (left <= kNothing) return kNothing;
  const std::optional<int> variance = scores_.variance(row_, page, token);
  return energy(page, token) + (variance ? variance_effects(*variance).value : 0) + left;
}

int CodeErrors::share(size_t page, uint32_t token, int planes) const {
  const int left = residual(page, token, planes);
  if (left <= kNothing) return kNothing;
  return static_cast<int>((weights_.score(row_, page, token) >> 3) +
                          16 * scores_.octave(row_, page)) -
         (goal_ >> 1) + (left >> 1);
}

int CodeErrors::granule_key(size_t page, uint32_t granule) const {
  std::vector<int> terms;
  const TokenMask tokens = reads_.keys.tokens_of(granule) & scores_.list().pages()[page].visible;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(tokens, token)) continue;
    terms.push_back(key(page, token, reads_.keys.planes_of(page, token)));
  }
  return log_sum_of(terms);
}

GranuleErrors CodeErrors::granule_value(size_t page, uint32_t granule) const {
  std::vector<int> values;
  std::vector<int> shares;
  const TokenMask tokens = reads_.values.tokens_of(granule) & scores_.list().pages()[page].visible;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(tokens, token)) continue;
    const int planes = reads_.values.planes_of(page, token);
    values.push_back(value(page, token, planes));
    shares.push_back(share(page, token, planes));
  }
  return {.value = log_sum_of(values), .share = log_sum_of(shares)};
}

// T
int64_t CodeErrors::measure() const {
  Int128 total = 0;
  Int128 coherent = 0;
  for (size_t page = 0; page < pages_.size(); ++page) {
    for (uint32_t granule = 0; granule < reads_.keys.granules(); ++granule) {
      total += power_of(granule_key(page, granule));
    }
    for (uint32_t granule = 0; granule < reads_.values.granules(); ++granule) {
      const int planes = reads_.values.planes[page][granule];
      const GranuleErrors errors = granule_value(page, granule);
      total += power_of(planes == 0 ? errors.price(planes) : errors.value);
      if (planes != 0) coherent += power_of(errors.share);
    }
  }
  total += (coherent * coherent >> kTotalBits) / kCoherentParts;
  return static_cast<int64_t>(std::min<Int128>(total, kMostTotal));
}

float CodeErrors::bound() const {
  return task_.command.error * std::sqrt(std::ldexp(static_cast<float>(total_), -kTotalBits));
}

}  // namespace nearkv::model
