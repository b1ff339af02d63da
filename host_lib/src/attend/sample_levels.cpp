#include "attend/sample_levels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attend/grain.hpp"
#include "mix.hpp"

namespace nearkv {
namespace {

constexpr double kRandomReads = 96;
constexpr int kFirstLimit = 64;
constexpr int kMostHalvings = 16;
constexpr std::uint32_t kGroups = 7;
constexpr std::uint32_t kGoldenRatio = 0x9E3779B9;

constexpr std::uint32_t round_key(std::uint32_t seed, std::uint32_t round) {
  return mix(mix(seed + kGoldenRatio) + round);
}

/// What is known of a threshold while they are tried from above.
struct Step {
  double doubled = 0;
  double plain = 0;
  double expected = 0;
};

}  // namespace

void LevelCounts::merge(const LevelCounts& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

template <typename Accepts>
SampleThreshold LevelCounts::lowest(const Accepts& accepts) const {
  constexpr std::array<double, 4> kQuarters{1, 0.70710678, 0.5, 0.35355339};
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::array<Step, kLevels + 4> steps{};
  SampleThreshold found{kLevels, kNone};
  for (int level = kLevels - 1; level >= 0; --level) {
    const auto place = static_cast<std::size_t>(level);
    double weighed = 0;
    double counted = 0;
    for (std::size_t k = 0; k < kQuarters.size() && place + k < counts_.size(); ++k) {
      weighed += counts_[place + k] * kQuarters[k];
      counted += counts_[place + k];
    }
    const Step& above = steps[place + 4];
    steps[place] = {above.doubled / 2 + 2 * weighed, above.plain / 4 + weighed,
                    (above.expected + counted) / 2};
    const double variance = steps[place].doubled - steps[place].plain;
    const double log_variance = variance > 0 ? std::log2(variance) - level / 2.0 : kNone;
    if (accepts(level, log_variance, steps[place].expected)) found = {level, log_variance};
  }
  return found;
}

SampleThreshold LevelCounts::first() const {
  const SampleThreshold enough = lowest([](int level, double, double expected) {
    return level <= kFirstLimit && expected >= kRandomReads;
  });
  if (enough.level != kLevels) return enough;
  return lowest([](int level, double, double) { return level == kFirstLimit; });
}

SampleThreshold LevelCounts::within(double log_variance) const {
  return lowest([&](int, double reached, double) { return reached <= log_variance; });
}

SampleLevels::SampleLevels(const AttendContext& context, const TailSums& sums)
    : context_(context), sums_(sums), rest_(context.list.pages()) {
  const std::vector<float> references = sums.midpoint_references();
  for (const float reference : references) tops_.push_back(std::floor(reference) + 1);
  levels_.resize(rest_.size() * tops_.size() * NKV_PAGE_TOKENS);
}

std::vector<LevelCounts> SampleLevels::count(std::span<const std::uint64_t> taken) {
  const std::size_t rows = tops_.size();
  std::vector<std::vector<LevelCounts>> parts(context_.workers->size(),
                                              std::vector<LevelCounts>(rows));
  context_.workers->for_each(
      rest_.size(), kPlanePagesAtATime, [&](unsigned member, std::size_t begin, std::size_t end) {
        for (std::size_t page = begin; page < end; ++page) {
          rest_[page] = sums_.rest(page) & ~taken[page];
          if (rest_[page] == 0) continue;
          for (std::size_t row = 0; row < rows; ++row) {
            std::uint8_t* const levels = levels_.data() + (page * rows + row) * NKV_PAGE_TOKENS;
            level_midpoints(context_.scan->mids(row, page).data(), sums_.logits(row).midpoint,
                            tops_[row], LevelCounts::kLevels - 1, levels);
            LevelCounts& counts = parts[member][row];
            for (std::uint64_t left = rest_[page]; left != 0; left &= left - 1) {
              counts.count(levels[std::countr_zero(left)]);
            }
          }
        }
      });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    for (std::size_t row = 0; row < rows; ++row) parts[0][row].merge(parts[i][row]);
  }
  return parts[0];
}

void SampleLevels::draw(std::span<const SampleThreshold> thresholds, std::uint32_t seed,
                        std::uint32_t round, Sample* sample) const {
  const std::size_t rows = tops_.size();
  const std::uint32_t key = round_key(seed, round);
  sample->chosen.assign(rest_.size(), 0);
  std::vector<std::uint8_t> halvings(rest_.size() * NKV_PAGE_TOKENS);
  context_.workers->for_each(
      rest_.size(), kPlanePagesAtATime, [&](unsigned, std::size_t begin, std::size_t end) {
        std::array<std::int16_t, NKV_PAGE_TOKENS> least;  // Levels above the rows' thresholds.
        for (std::size_t page = begin; page < end; ++page) {
          if (rest_[page] == 0) continue;
          least.fill(4 * kMostHalvings);
          for (std::size_t row = 0; row < rows; ++row) {
            const std::uint8_t* const levels =
                levels_.data() + (page * rows + row) * NKV_PAGE_TOKENS;
            const auto threshold = static_cast<std::int16_t>(thresholds[row].level);
            for (std::size_t t = 0; t < NKV_PAGE_TOKENS; ++t) {
              least[t] = std::min(least[t], static_cast<std::int16_t>(levels[t] - threshold));
            }
          }
          const auto first = static_cast<std::uint32_t>(page * NKV_PAGE_TOKENS);
          std::uint64_t chosen = 0;
          for (std::uint32_t t = 0; t < NKV_PAGE_TOKENS; ++t) {
            const int j = least[t] < 0 ? 0 : std::min((least[t] >> 2) + 1, kMostHalvings);
            halvings[first + t] = static_cast<std::uint8_t>(j);
            const std::uint64_t hash = mix(key ^ (first + t));
            chosen |= std::uint64_t{hash >> (32 - j) == 0} << t;
          }
          sample->chosen[page] = chosen & rest_[page];
        }
      });
  sample->halvings.clear();
  sample->group.clear();
  for (std::size_t page = 0; page < rest_.size(); ++page) {
    for (std::uint64_t left = sample->chosen[page]; left != 0; left &= left - 1) {
      const auto token = static_cast<std::uint32_t>(page * NKV_PAGE_TOKENS +
                                                    static_cast<unsigned>(std::countr_zero(left)));
      sample->halvings.push_back(halvings[token]);
      const std::uint32_t hash = mix(key ^ token);
      sample->group.push_back(static_cast<std::uint8_t>(1 + ((hash & 0xFFFF) * kGroups >> 16)));
    }
  }
}

}  // namespace nearkv
