#include "code_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>

#include "number.hpp"
#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr int kMostVariance = 96;
constexpr int kMostDistance = 160;
constexpr int kVarianceUnit = 241;      // 2^14 / ln² 2, in sixteenths of octaves.
constexpr int64_t kLeastSpread = 3410;  // .1 of it.
constexpr int kWeightBits = 15;
constexpr int kPartBits = 15;

long double power_of(int sixteenths) {
  return std::exp2(static_cast<long double>(sixteenths) / 16);
}

constexpr size_t place_of(int variance) {
  return static_cast<size_t>(std::clamp(variance, kLeastVariance, kMostVariance) - kLeastVariance);
}

VarianceEffects tabulate(int variance) {
  constexpr auto kLog2E = std::numbers::log2e_v<long double>;
  const long double v = power_of(variance);
  // log2(e^v − 1), which for large v would overflow.
  const long double excess = v > 40 ? v * kLog2E : std::log2(std::expm1(v));
  return {.half = std::llround(64 * v * kLog2E),
          .key = static_cast<int>(std::llround(16 * (v * kLog2E + excess))),
          .value = static_cast<int>(std::llround(16 * v * kLog2E)),
          .excess = static_cast<int>(std::llround(16 * excess))};
}

// E: 2^15 · 2^(fraction / 128).
int64_t mantissa_of(int64_t fraction) {
  static const auto table = [] {
    std::array<int64_t, 128> entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i] = std::llround(32768 * std::exp2(static_cast<long double>(i) / 128));
    }
    return entries;
  }();
  return table[static_cast<size_t>(fraction)];
}

}  // namespace

int64_t spread_part(int distance) {
  static const auto table = [] {
    std::array<int64_t, (2 * kMostDistance) + 1> entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      const int d = static_cast<int>(i) - kMostDistance;
      entries[i] = std::min<int64_t>(32767, std::llround(32768 / (1 + power_of(-d))));
    }
    return entries;
  }();
  const int index = std::clamp(distance, -kMostDistance, kMostDistance) + kMostDistance;
  return table[static_cast<size_t>(index)];
}

int64_t drawn_score(int64_t above, int64_t mean, int64_t half, int64_t part) {
  constexpr int64_t kLeast = std::numeric_limits<int16_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int16_t>::max();
  const int64_t distance = std::clamp(above + half - mean, kLeast, kMost);
  const int64_t drawn = mean + rounded_shift(distance * part, kPartBits);
  return std::clamp(drawn, above - half, above + half);
}

VarianceEffects variance_effects(int variance) {
  static const auto table = [] {
    std::array<VarianceEffects, kMostVariance - kLeastVariance + 1> entries{};
    for (int i = kLeastVariance; i <= kMostVariance; ++i) entries[place_of(i)] = tabulate(i);
    return entries;
  }();
  return table[place_of(variance)];
}

CodeWeights::CodeWeights(const CodeScores& scores) : scores_(&scores) {
  for (size_t row = 0; row < scores.rows(); ++row) {
    for (size_t page = 0; page < scores.list().size(); ++page) {
      priors_.push_back(prior_of(row, page));
    }
  }
  update();
}

void CodeWeights::update() {
  drawn_.clear();
  for (size_t row = 0; row < scores_->rows(); ++row) {
    for (size_t page = 0; page < scores_->list().size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        drawn_.push_back(drawn(row, page, token));
      }
    }
  }
}

CodeWeights::Prior CodeWeights::prior_of(size_t row, size_t page) const {
  int64_t tokens = 0;
  int64_t sum = 0;
  int64_t squares = 0;
  int64_t noise = 0;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(scores_->list().coded(page), token)) continue;
    const int64_t score = scores_->above(row, page, token);
    ++tokens;
    sum += score;
    squares += score * score;
    const int variance = std::min(*scores_->variance(row, page, token), kMostVariance);
    noise += octaves_fixed(variance + kVarianceUnit, 0);
  }
  if (tokens == 0) return {};
  const int64_t spread = floor_divide((tokens * squares) - (sum * sum), tokens * tokens);
  return {.mean = floor_divide(sum, tokens),
          .log_spread = log2_sixteenths(static_cast<uint64_t>(
                            std::max(spread - floor_divide(noise, tokens), kLeastSpread))) -
                        kVarianceUnit};
}

int64_t CodeWeights::drawn(size_t row, size_t page, uint32_t token) const {
  const int64_t above = scores_->above(row, page, token);
  const std::optional<int> variance = scores_->variance(row, page, token);
  if (!variance) return above;
  const Prior& prior = priors_[(row * scores_->list().size()) + page];
  const int64_t half = variance_effects(*variance).half;
  const int64_t part = spread_part(prior.log_spread - *variance);
  return drawn_score(above, prior.mean, half, part);
}

int64_t CodeWeights::octave(size_t row, size_t page) const {
  int64_t octave = std::numeric_limits<int64_t>::min();
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (!has_token(scores_->list().pages()[page].visible, token)) continue;
    octave = std::max(octave, score(row, page, token) >> kCodeLogitBits);
  }
  return octave;
}

int64_t CodeWeights::weight(size_t row, size_t page, uint32_t token, int64_t octave) const {
  const int64_t score = this->score(row, page, token);
  const int64_t below = octave - (score >> kCodeLogitBits);
  return below > kWeightBits ? 0 : mantissa_of(score & ((1 << kCodeLogitBits) - 1)) >> below;
}

}  // namespace nearkv::model
