// Which tokens BOUNDED reads in a round (section 8, steps 2 and 3).
#ifndef NEARKV_MODEL_SAMPLING_HPP_
#define NEARKV_MODEL_SAMPLING_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "page_list.hpp"
#include "tail_state.hpp"

namespace nearkv::model {

/// One row's threshold: tokens of a level below it are read for sure, others at q = 2^-j.
struct Threshold {
  int level;             ///< θ
  int64_t log_variance;  ///< λ, 24 fraction bits.
};

/// One row's tokens outside the exact set, counted by the logarithm of their weights.
class Levels {
 public:
  static constexpr int kLevels = 152;  ///< 7 in 2 octaves, down to weights that are zero.

  /// ℓ of a token with logit `logit`, `reference` being the row's M_t.
  static int of(int64_t logit, int64_t reference);

  void count(int level) { ++counts_[static_cast<size_t>(level)]; }

  /// The first round's threshold: enough random reads to measure an error.
  [[nodiscard]] Threshold first() const;

  /// The lowest threshold whose λ is at most `log_variance`.
  [[nodiscard]] Threshold within(int64_t log_variance) const;

 private:
  template <typename Accepts>
  [[nodiscard]] Threshold lowest(Threshold fallback, const Accepts& accepts) const;

  std::array<uint64_t, kLevels> counts_{};
};

struct SampledToken {
  size_t page;
  uint32_t token;
  int halvings;                      ///< j: q = 2^-j
  size_t group;                      ///< 1 to 7.
  std::vector<int64_t> approximate;  ///< Per row, L of its midpoint.
};

/// j of a token at a row's level, before it is the least of all rows.
int halvings_of(int level, const Threshold& threshold);

/// 32 uniform bits of a token, by its index in the list,
uint32_t sample_hash(uint32_t seed, uint32_t round, uint32_t token);

/// whether they let it be read,
bool is_drawn(uint32_t hash, int halvings);

/// and its group, 1 to 7.
size_t group_of(uint32_t hash);

/// Levels of every row.
std::vector<Levels> levels_of(const TailState& state);

/// The sample of round `round` (the first is 1), in order.
std::vector<SampledToken> draw_sample(const TailState& state, std::span<const Threshold> thresholds,
                                      uint32_t seed, uint32_t round);

/// The tokens of a sample as a set.
TokenSet token_set(std::span<const SampledToken> sample, size_t pages);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_SAMPLING_HPP_
