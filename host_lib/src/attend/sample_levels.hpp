// Which tokens BOUNDED reads next (ARITHMETIC.md 8.2, 8.3): every row counts its tokens by the
// logarithm of their weights and sets a threshold; the surest row decides how likely a token is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/tail_sums.hpp"

namespace nearkv {

/// One row's threshold: tokens of a level below it are read for sure.
struct SampleThreshold {
  int level = 0;
  double log_variance = 0;  ///< log2 of what the others' errors add up to.
};

/// One row's counts.
class LevelCounts {
 public:
  static constexpr int kLevels = 152;

  void count(unsigned level) { ++counts_[level]; }
  void merge(const LevelCounts& other);

  [[nodiscard]] SampleThreshold first() const;
  [[nodiscard]] SampleThreshold within(double log_variance) const;

 private:
  template <typename Accepts>
  [[nodiscard]] SampleThreshold lowest(const Accepts& accepts) const;

  std::array<std::uint32_t, kLevels> counts_{};
};

/// A random sample of the tokens that are not exact.
struct Sample {
  std::vector<std::uint64_t> chosen;  ///< A mask per page.
  /// Of the chosen tokens, ascending: -log2 of the probability, and the group, 1 to 7.
  std::vector<std::uint8_t> halvings;
  std::vector<std::uint8_t> group;
};

class SampleLevels {
 public:
  SampleLevels(const AttendContext& context, const TailSums& sums);

  /// Counts the tokens that are neither exact nor in `taken`.
  [[nodiscard]] std::vector<LevelCounts> count(std::span<const std::uint64_t> taken);

  /// Draws the sample of a round (the first is 1) of those that were counted last.
  void draw(std::span<const SampleThreshold> thresholds, std::uint32_t seed, std::uint32_t round,
            Sample* sample) const;

 private:
  const AttendContext& context_;
  const TailSums& sums_;
  std::vector<float> tops_;           ///< Per row: what levels count down from, M_t + 1.
  std::vector<std::uint64_t> rest_;   ///< Per page.
  std::vector<std::uint8_t> levels_;  ///< [pages][rows][tokens of a page].
};

}  // namespace nearkv
