// Which tokens BOUNDED reads: the settled ones and the random sample (section 8, steps 1 and 2).
#ifndef NEARKV_MODEL_SAMPLING_HPP_
#define NEARKV_MODEL_SAMPLING_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "estimate.hpp"
#include "page_list.hpp"

namespace nearkv::model {

struct SampledToken {
  size_t page;
  uint32_t token;
  double probability;  ///< q_i
};

/// Tokens outside the exact set, binned by log2 A in quarters of an octave.
class ContributionBins {
 public:
  /// `targets` are T_h per row.
  ContributionBins(const Estimate& estimate, std::span<const double> targets);

  /// Step 1: tokens of the fewest top bins such that the rest stays within every target.
  [[nodiscard]] TokenSet settled() const;

  /// Step 2: the sample of round `round` (the first is 1), for errors of `standard_deviations`.
  [[nodiscard]] std::vector<SampledToken> sample(uint32_t seed, uint32_t round,
                                                 double standard_deviations) const;

 private:
  /// Bins of A from 2^−64 to 2^64; what lies outside counts to the outermost.
  static constexpr int kFirstBin = -256;
  static constexpr int kLastBin = 255;
  static constexpr size_t kBins = kLastBin - kFirstBin + 1;

  struct Bin {
    uint64_t tokens = 0;
    std::vector<double> contributions2;  // Σ a² per row.
  };

  static double inclusion(int bin, int offset);
  [[nodiscard]] const Bin& bin(int number) const {
    return bins_[static_cast<size_t>(number - kFirstBin)];
  }
  [[nodiscard]] int bin_of(size_t page, uint32_t token) const;
  [[nodiscard]] bool is_enough(int offset, double standard_deviations) const;

  const Estimate* estimate_;
  std::vector<double> targets_;
  std::vector<Bin> bins_;
  std::vector<int16_t> bin_of_token_;  // [page][token]
};

/// Low 32 bits of mix(mix(seed + 2^32 · round) + token), mix = splitmix64's step.
uint32_t sample_hash(uint32_t seed, uint32_t round, uint32_t token);

/// The tokens of a sample as a set.
TokenSet token_set(std::span<const SampledToken> sample, size_t pages);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_SAMPLING_HPP_
