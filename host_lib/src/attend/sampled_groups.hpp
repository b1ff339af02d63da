// What a random sample adds to BOUNDED's state, and the error that its seven groups show
// (ARITHMETIC.md 8.4, 8.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/sample_levels.hpp"
#include "attend/tail_sums.hpp"

namespace nearkv {

class SampledGroups {
 public:
  static constexpr std::size_t kSums = 8;  ///< The state's own, and seven groups.

  /// The references must outlive this.
  SampledGroups(const AttendContext& context, const TailSums& sums);

  [[nodiscard]] SoftmaxState& state() { return state_; }

  /// Reads a sample: its tokens become exact in the state, and make up new groups. `reads_means`
  /// counts their pages' sums.
  Outcome take(const Sample& sample, bool reads_means, Traffic* traffic);

  /// Sets every row's output from state and groups.
  void measure();

  /// One standard deviation relative to |O|; infinite where the groups say nothing.
  [[nodiscard]] double deviation(std::size_t row) const { return deviations_[row]; }

  /// State and groups together.
  [[nodiscard]] SoftmaxState total() const;

 private:
  struct Part;

  void accumulate(const Sample& sample, const ExactTokens& tokens, std::size_t page,
                  std::size_t index, const PageView& view, Part* part) const;
  void merge(const std::vector<Part>& parts, Traffic* traffic);
  [[nodiscard]] double measure_row(std::size_t row) const;

  const AttendContext& context_;
  const TailSums& sums_;
  SoftmaxState state_;
  std::vector<float> groups_;      ///< [rows][kSums][dim]; the first of each row is not used.
  std::vector<float> group_sums_;  ///< [rows][kSums]
  std::vector<double> deviations_;
};

}  // namespace nearkv
