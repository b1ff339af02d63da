// A random sample of inexact tokens, read exactly: what it says about the output and about its own
// error (ARITHMETIC.md 8, steps 2 and 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/error_model.hpp"
#include "attend/exact_rows.hpp"
#include "attend/inclusion.hpp"
#include "attend/tail_sums.hpp"

namespace nearkv {

class SampledCorrection {
 public:
  SampledCorrection(const AttendContext& context, const TailSums& sums, const ErrorModel& model,
                    const SoftmaxState& state);

  /// Draws the sample and reads its rows. The same seed and round draw the same tokens.
  Outcome draw(const Inclusion& inclusion, std::uint32_t seed, std::uint32_t round,
               Traffic* traffic);

  /// S of a row: the standard deviation of the corrected output, as the sample measures it.
  [[nodiscard]] double deviation(std::size_t row) const { return deviations_[row]; }

  /// Corrects a row of `state` (a copy of the one given at first) and returns the length of its
  /// output.
  double apply(std::size_t row, SoftmaxState* state) const;

  [[nodiscard]] std::span<const std::uint64_t> chosen() const { return chosen_; }
  [[nodiscard]] const ExactTokens& tokens() const { return tokens_; }

 private:
  /// One worker's sums for all rows.
  struct Part;

  void choose(const Inclusion& inclusion, std::uint32_t seed, std::uint32_t round);
  Outcome accumulate(const Inclusion& inclusion, std::vector<Part>* parts, Traffic* traffic);
  void conclude(const std::vector<Part>& parts);

  const AttendContext& context_;
  const TailSums& sums_;
  const ErrorModel& model_;
  const SoftmaxState& state_;
  std::vector<std::uint64_t> chosen_;
  ExactTokens tokens_;
  std::vector<float> corrections_;   ///< C, shrunk, [rows][dim].
  std::vector<double> normalisers_;  ///< n per row.
  std::vector<double> deviations_;
};

}  // namespace nearkv
