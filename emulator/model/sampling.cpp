#include "sampling.hpp"

#include <algorithm>

#include "mix.hpp"
#include "softmax.hpp"

namespace nearkv::model {

namespace {

constexpr int kUnitBits = 16;  // Fraction bits of the walk.
constexpr std::array<uint64_t, 4> kQuarters{65536, 46341, 32768, 23170};  // 2^(16 − k/2)
constexpr uint64_t kRandomReads = 96;
constexpr int kFirstLimit = 64;
constexpr int kMostHalvings = 16;
constexpr uint64_t kGroups = 7;
constexpr int64_t kHalfOctave = int64_t{1} << 23;
constexpr int64_t kNoVariance = -(int64_t{1} << 40);

// What the walk knows of a threshold.
struct Step {
  uint64_t doubled = 0;   // G
  uint64_t plain = 0;     // A
  uint64_t expected = 0;  // H: random reads.
};

int64_t log_variance(const Step& step, int level) {
  const uint64_t variance = step.doubled - step.plain;
  return variance == 0 ? kNoVariance : log2_fixed(variance) - level * kHalfOctave;
}

}  // namespace

int Levels::of(int64_t logit, int64_t reference) {
  const int64_t below = (reference + 1) * 65536 - 1 - logit;
  return static_cast<int>(std::clamp<int64_t>((below * 7) >> 17, 0, kLevels - 1));
}

template <typename Accepts>
Threshold Levels::lowest(Threshold fallback, const Accepts& accepts) const {
  std::array<Step, kLevels + 4> steps{};
  std::array<uint64_t, kLevels + 4> counts{};
  std::ranges::copy(counts_, counts.begin());
  Threshold found = fallback;
  for (int level = kLevels - 1; level >= 0; --level) {
    const auto place = static_cast<size_t>(level);
    uint64_t weighed = 0;
    uint64_t counted = 0;
    for (size_t k = 0; k < kQuarters.size(); ++k) {
      weighed += counts[place + k] * kQuarters[k];
      counted += counts[place + k] << kUnitBits;
    }
    const Step& above = steps[place + 4];
    steps[place] = {.doubled = (above.doubled >> 1) + 2 * weighed,
                    .plain = (above.plain >> 2) + weighed,
                    .expected = (above.expected + counted) >> 1};
    const int64_t variance = log_variance(steps[place], level);
    if (accepts(level, variance, steps[place].expected)) found = {level, variance};
  }
  return found;
}

Threshold Levels::first() const {
  bool was_enough = false;
  const Threshold enough =
      lowest({kLevels, kNoVariance}, [&](int level, int64_t, uint64_t expected) {
        const bool is_enough = level <= kFirstLimit && expected >= kRandomReads << kUnitBits;
        was_enough = was_enough || is_enough;
        return is_enough;
      });
  if (was_enough) return enough;
  return lowest({kLevels, kNoVariance},
                [](int level, int64_t, uint64_t) { return level == kFirstLimit; });
}

Threshold Levels::within(int64_t log_variance) const {
  return lowest({kLevels, kNoVariance},
                [&](int, int64_t variance, uint64_t) { return variance <= log_variance; });
}

std::vector<Levels> levels_of(const TailState& state) {
  std::vector<Levels> levels(state.rows());
  for (size_t row = 0; row < levels.size(); ++row) {
    const int64_t reference = state.midpoint_reference(row);
    for (size_t page = 0; page < state.pages().size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (!has_token(state.rest(page), token)) continue;
        levels[row].count(Levels::of(state.logit(row, page, token), reference));
      }
    }
  }
  return levels;
}

int halvings_of(int level, const Threshold& threshold) {
  const int over = level - threshold.level;
  return over < 0 ? 0 : std::min((over >> 2) + 1, kMostHalvings);
}

uint32_t sample_hash(uint32_t seed, uint32_t round, uint32_t token) {
  return mix(mix(mix(seed + 0x9E3779B9u) + round) ^ token);
}

bool is_drawn(uint32_t hash, int halvings) { return uint64_t{hash} >> (32 - halvings) == 0; }

size_t group_of(uint32_t hash) { return 1 + ((hash & 0xFFFF) * kGroups >> 16); }

std::vector<SampledToken> draw_sample(const TailState& state, std::span<const Threshold> thresholds,
                                      uint32_t seed, uint32_t round) {
  std::vector<SampledToken> sample;
  for (size_t page = 0; page < state.pages().size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(state.rest(page), token)) continue;
      SampledToken drawn{
          .page = page, .token = token, .halvings = kMostHalvings, .group = 0, .approximate = {}};
      for (size_t row = 0; row < state.rows(); ++row) {
        const int64_t logit = state.logit(row, page, token);
        const int level = Levels::of(logit, state.midpoint_reference(row));
        drawn.halvings = std::min(drawn.halvings, halvings_of(level, thresholds[row]));
        drawn.approximate.push_back(logit);
      }
      const uint32_t hash = sample_hash(seed, round, state.pages()[page].first_token() + token);
      if (!is_drawn(hash, drawn.halvings)) continue;
      drawn.group = group_of(hash);
      sample.push_back(std::move(drawn));
    }
  }
  return sample;
}

TokenSet token_set(std::span<const SampledToken> sample, size_t pages) {
  TokenSet tokens(pages, 0);
  for (const SampledToken& sampled : sample) tokens[sampled.page] |= token_bit(sampled.token);
  return tokens;
}

}  // namespace nearkv::model
