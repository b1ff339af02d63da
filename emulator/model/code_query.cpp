#include "code_query.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

#include "number.hpp"
#include "softmax.hpp"
#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr int kQueryBits = 23;   // |q̂| < 2^23.
constexpr int kWeightBits = 14;  // Σ |w|, nearly.
constexpr int kMultiplierBits = 12;
constexpr int64_t kLoudMultiplier = int64_t{1} << 15;
constexpr int64_t kLoudResidual = int64_t{1} << 14;  // 128 octaves.
constexpr int64_t kLoudMean = int64_t{1} << 29;
constexpr int kVarianceOfOnePlane = 59;
constexpr int kSearchBits = 23;  // Of C in a search.
constexpr int kSearchVariance = 176;
constexpr int64_t kLog2E = 185;  // 2^7 · log2 e, rounded up.

int bits_of(int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::abs(value))));
}

// ± y · 2^(power − 11).
struct Gained {
  int64_t value;
  int power;
};

Gained divide_by_gain(int32_t element, int gain) {
  const Octaves inverse = octaves(-gain);
  return {.value = element * inverse.mantissa, .power = inverse.power + 11};
}

}  // namespace

LogitScale code_scale(float scale) { return {scale, /*soft_cap=*/0.0f, /*key_exponent=*/0}; }

int64_t search_radius(int variance, uint8_t z) {
  const int64_t sixteenths = z == 0 ? NKV_USUAL_SEARCH_Z : z;
  const Octaves deviation = octaves(variance >> 1);
  return 2 + scale_saturating(Int128{sixteenths} * kLog2E * deviation.mantissa, deviation.power - 4,
                              int64_t{1} << 40);
}

CodeQuery::CodeQuery(const Query& query, std::span<const int8_t> gains, const LogitScale& scale)
    : factor_(std::abs(scale.factor())),
      power_(scale.power() + 261),
      negative_(scale.factor() < 0) {
  for (size_t row = 0; row < query.rows(); ++row) {
    rows_.push_back(make_row(query.row(row), query.exponent(row), gains));
  }
}

CodeQuery::CodeQuery(const Query& query, std::span<const int8_t> gains, int top)
    : factor_(int64_t{1} << kSearchBits), power_(-kSearchBits), negative_(false) {
  for (size_t index = 0; index < query.rows(); ++index) {
    Row& row = rows_.emplace_back(make_row(query.row(index), query.exponent(index), gains));
    if (row.is_zero) continue;
    row.search_power =
        (kSearchVariance - row.variance - 2 * top - log2_sixteenths(gains.size())) >> 5;
    row.power += row.search_power;
    row.variance += 32 * row.search_power;
  }
}

int64_t CodeQuery::search_logit(size_t row, int64_t score, int key_exponent) const {
  constexpr int64_t kMostLogit = (int64_t{1} << 47) - 1;
  const int power = rows_[row].exponent + key_exponent + rows_[row].search_power - 261;
  return scale_saturating(Int128{score >> 24}, power, kMostLogit);
}

CodeQuery::Row CodeQuery::make_row(std::span<const int32_t> query, int exponent,
                                   std::span<const int8_t> gains) const {
  std::vector<Gained> elements;
  std::optional<int> top;
  for (size_t channel = 0; channel < query.size(); ++channel) {
    const Gained element = divide_by_gain(query[channel], gains[channel]);
    elements.push_back(element);
    if (element.value == 0) continue;
    const int own = bits_of(element.value) + element.power;
    top = std::max(top.value_or(own), own);
  }
  Row row;
  row.exponent = exponent;
  row.is_zero = !top;
  uint64_t energy = 0;
  for (const Gained& element : elements) {
    const int shift = top.value_or(0) - kQueryBits - element.power;
    const int64_t magnitude = std::abs(element.value);
    const int64_t kept = shift >= 0 ? floor_shift(magnitude, shift) : magnitude << -shift;
    row.values.push_back((element.value < 0) != negative_ ? -kept : kept);
    energy += static_cast<uint64_t>(kept * kept);
  }
  if (top) {
    row.power = *top + exponent - 183 + power_;
    const int64_t log = 2 * log2_fixed(static_cast<uint64_t>(factor_)) + log2_fixed(energy);
    row.variance = static_cast<int>(log >> 20) +
                   16 * log2_last_block(static_cast<uint32_t>(query.size())) + 32 * row.power +
                   kVarianceOfOnePlane;
  }
  for (int set = 0; set < NKV_SIGN_SETS; ++set) {
    const std::vector<int64_t> exact = transform(row.values, set);
    int64_t length = 0;
    for (const int64_t value : exact) length += std::abs(value);
    Weights& weights = row.transformed[static_cast<size_t>(set)];
    weights.power = std::max(0, bits_of(length) - kWeightBits);
    for (const int64_t value : exact) {
      weights.values.push_back(rounded_shift(value, weights.power));
    }
  }
  return row;
}

CodeLogit CodeQuery::mean_logit(size_t row, const StoredCodes& keys) const {
  int64_t sum = 0;
  for (uint32_t c = 0; c < keys.channels(); ++c) sum += rows_[row].values[c] * keys.mean(c);
  const int power = rows_[row].power + keys.mean_power() + kCodeLogitBits + 1;
  const int64_t logit = scale_saturating(Int128{sum >> 1} * factor_, power, kLoudMean);
  return {.value = logit, .is_loud = std::abs(logit) == kLoudMean};
}

CodeLogit CodeQuery::residual_logit(size_t row, const StoredCodes& keys, uint32_t token,
                                    std::span<const int64_t> values, int planes) const {
  const std::optional<int> factor = keys.factor(token);
  if (!factor || rows_[row].is_zero) return {};
  const Weights& weights = rows_[row].transformed[static_cast<size_t>(keys.sign_set())];
  const int unread = NKV_KEY_CODE_PLANES - planes;
  int64_t sum = 0;
  for (size_t c = 0; c < values.size(); ++c) sum += weights.values[c] * (values[c] >> unread);

  const Octaves octave = octaves(*factor);
  const int64_t ratio = kKeyCodes.ratio[static_cast<size_t>(planes - 1)];
  const int power = rows_[row].power + weights.power + octave.power + 11 + unread;
  const int64_t multiplier =
      scale_saturating(Int128{factor_} * octave.mantissa * ratio, power, kLoudMultiplier);
  const int64_t heard = std::min(multiplier, kLoudMultiplier - 1);
  const int64_t logit =
      std::clamp(rounded_shift(sum * heard, kMultiplierBits), -kLoudResidual, kLoudResidual);
  return {.value = logit,
          .is_loud = multiplier == kLoudMultiplier || std::abs(logit) == kLoudResidual};
}

int CodeQuery::variance(size_t row, const StoredCodes& keys, uint32_t token, int planes) const {
  const std::optional<int> factor = keys.factor(token);
  if (rows_[row].is_zero || (!factor && !keys.has_residuals())) return kLeastVariance;
  const int level = factor ? planes : 0;
  return std::max(rows_[row].variance + 2 * factor.value_or(keys.lowest_factor()) +
                      kKeyVariances[static_cast<size_t>(level)],
                  kLeastVariance);
}

}  // namespace nearkv::model
