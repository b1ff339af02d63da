#include "code_errors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr int64_t kNoLog = -(int64_t{1} << 34);  // lg 0
constexpr int kSumBits = 20;
constexpr int kTermBits = 14;
constexpr int kTotalBits = 24;
constexpr int kMostEnergy = 320;  // 20 octaves.
constexpr int kValueLength = 58;  // lg₁₆ of g² of V.
constexpr int64_t kCoherentParts = 640;
constexpr int kWidest = 24;  // Octaves between a mean's unit and an output's that still matter.
constexpr int64_t kMostBase = int64_t{1} << 20;

int log_of(uint64_t number) { return number == 0 ? kNothing : log2_sixteenths(number); }

int log_of(Int128 number) {
  int dropped = 0;
  for (; number >> 63 != 0; number >>= 1) ++dropped;
  return log_of(static_cast<uint64_t>(number)) + 16 * dropped;
}

// Σ 2^x
int log_sum_of(std::span<const int> terms) {
  int largest = kNothing;
  for (const int term : terms) largest = std::max(largest, term);
  if (is_nothing(largest)) return kNothing;
  int64_t sum = 0;
  for (const int term : terms) sum += octaves_fixed(std::max(term - largest, -1024), kTermBits);
  return largest + log_of(static_cast<uint64_t>(sum)) - 16 * kTermBits;
}

int64_t power_of(int energy) {
  return octaves_fixed(std::clamp(energy, -1024, kMostEnergy), kTotalBits);
}

// lg₁₆ of S·D and g², for values.
int value_size(uint32_t channels) {
  return log_of(uint64_t{channels}) + 16 * log2_last_block(channels) + kValueLength;
}

int64_t fine_log_of(uint64_t number) { return number == 0 ? kNoLog : log2_fixed(number); }

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
  const int64_t goal = goal_of(sums, output);
  for (size_t page = 0; page < scores.list().size(); ++page) {
    pages_.push_back(scores.list().is_coded(page) ? scale_of(page, goal, output) : PageScale{});
    for (uint32_t granule = 0; granule < reads.keys.granules(); ++granule) {
      keys_.push_back(sum_keys(page, granule));
    }
    for (uint32_t granule = 0; granule < reads.values.granules(); ++granule) {
      values_.push_back(sum_values(page, granule));
    }
  }
  total_ = measure();
}

// γ
int64_t CodeErrors::goal_of(const RowSoftmax& sums, const Output& output) const {
  const uint8_t z = task_.command.z == 0 ? NKV_USUAL_BOUND_Z : task_.command.z;
  const Number error = decode_binary32(std::bit_cast<uint32_t>(task_.command.error));
  const int64_t fine =
      2 * (fine_log_of(static_cast<uint64_t>(error.significand)) - fine_log_of(uint64_t{z}) +
           fine_log_of(static_cast<uint64_t>(sums.z()))) +
      fine_log_of(static_cast<uint64_t>(output.squares));
  const int64_t octaves = error.exponent - 146 + sums.reference() - 41 + output.power;
  return (fine >> 20) + 32 * octaves;
}

CodeErrors::PageScale CodeErrors::scale_of(size_t page, int64_t goal, const Output& output) const {
  const StoredCodes values = scores_.list().values(page);
  int64_t squares = 0;
  int64_t products = 0;
  for (uint32_t channel = 0; channel < values.channels(); ++channel) {
    const int64_t mean = values.mean(channel);
    squares += mean * mean;
    products += mean * output.values[channel];
  }
  // Of mean · 2^above − o · 2^below, one of which is 0; what is beyond all bits of the other is not
  // there.
  const int apart = values.mean_power() - output.power;
  const int above = std::clamp(apart, 0, kWidest);
  const int below = std::clamp(-apart, 0, kWidest);
  Int128 distance = 0;
  if (apart >= -kWidest) distance += Int128{squares} << 2 * above;
  if (apart <= kWidest) distance += Int128{output.squares} << 2 * below;
  if (std::abs(apart) <= kWidest) distance -= Int128{products} * (Int128{2} << (above + below));
  const int unit = apart > kWidest    ? values.mean_power() - kWidest
                   : apart < -kWidest ? output.power - kWidest
                                      : std::min(values.mean_power(), output.power);
  PageScale scale{.base = static_cast<int>(std::clamp<int64_t>(
                      32 * scores_.octave(row_, page) - goal, -kMostBase, kMostBase)),
                  .distance = distance == 0 ? kNothing : log_of(distance) + 32 * unit};
  const TokenMask tokens = scores_.list().coded(page);
  if (!values.has_residuals() || tokens == 0) return scale;

  scale.residual = 2 * values.top() + value_size(values.channels());
  int64_t lengths = 0;
  for_each_token(tokens, [&](uint32_t token) {
    const int factor = values.factor(token).value_or(values.lowest_factor());
    lengths += octaves_fixed(2 * (factor - values.top()), kSumBits);
  });
  const int mean_length = log_of(static_cast<uint64_t>(lengths / std::popcount(tokens)));
  scale.distance = log_sum(scale.distance, mean_length - 16 * kSumBits + scale.residual);
  return scale;
}

// |r|² + β; nothing if there is none, or the value row was read.
int CodeErrors::residual(size_t page, uint32_t token, int planes) const {
  if (is_nothing(pages_[page].residual) || has_token(reads_.values.rows[page], token)) {
    return kNothing;
  }
  const StoredCodes values = scores_.list().values(page);
  const std::optional<int> factor = values.factor(token);
  return pages_[page].residual + 2 * (factor.value_or(values.lowest_factor()) - values.top()) +
         (factor ? value_remainder(planes) : 0);
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
  return static_cast<int>(weights_.score(row_, page, token) >> 2) + effects.key + fall +
         pages_[page].base + pages_[page].distance;
}

// η
int CodeErrors::value(size_t page, uint32_t token, int planes) const {
  const int left = residual(page, token, planes);
  if (is_nothing(left)) return kNothing;
  const std::optional<int> variance = scores_.variance(row_, page, token);
  return static_cast<int>(weights_.score(row_, page, token) >> 2) +
         (variance ? variance_effects(*variance).value : 0) + pages_[page].base + left;
}

// α
int CodeErrors::share(size_t page, uint32_t token, int planes) const {
  const int left = residual(page, token, planes);
  if (is_nothing(left)) return kNothing;
  return static_cast<int>(weights_.score(row_, page, token) >> 3) + (pages_[page].base >> 1) +
         (left >> 1);
}

int CodeErrors::price(size_t page, uint32_t token, int planes) const {
  return log_sum(value(page, token, planes), share(page, token, planes) + coherence(planes));
}

int CodeErrors::sum_keys(size_t page, uint32_t granule) const {
  std::vector<int> terms;
  for_each_token(reads_.keys.tokens_of(granule) & scores_.list().coded(page), [&](uint32_t token) {
    terms.push_back(key(page, token, reads_.keys.planes_of(page, token)));
  });
  return log_sum_of(terms);
}

GranuleErrors CodeErrors::sum_values(size_t page, uint32_t granule) const {
  std::vector<int> values;
  std::vector<int> shares;
  const int planes = reads_.values.planes[page][granule];
  for_each_token(reads_.values.tokens_of(granule) & scores_.list().coded(page),
                 [&](uint32_t token) {
                   values.push_back(value(page, token, planes));
                   shares.push_back(share(page, token, planes));
                 });
  return {.value = log_sum_of(values), .share = log_sum_of(shares)};
}

// T
int64_t CodeErrors::measure() const {
  Int128 total = 0;
  Int128 coherent = 0;
  for (const int key : keys_) total += power_of(key);
  for (size_t page = 0; page < pages_.size(); ++page) {
    for (uint32_t granule = 0; granule < reads_.values.granules(); ++granule) {
      const int planes = reads_.values.planes[page][granule];
      const GranuleErrors& errors = granule_value(page, granule);
      total += power_of(planes == 0 ? errors.price(planes) : errors.value);
      if (planes != 0) coherent += power_of(errors.share);
    }
  }
  coherent = std::min<Int128>(coherent, kMostTotal);
  total += (coherent * coherent >> kTotalBits) / kCoherentParts;
  return static_cast<int64_t>(std::min<Int128>(total, kMostTotal));
}

float CodeErrors::bound() const {
  if (total_ == kMostTotal) return std::numeric_limits<float>::infinity();
  return task_.command.error * std::sqrt(std::ldexp(static_cast<float>(total_), -kTotalBits));
}

}  // namespace nearkv::model
