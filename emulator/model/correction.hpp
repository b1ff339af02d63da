// What a sample corrects, and the error that it measures (section 8, step 3).
#ifndef NEARKV_MODEL_CORRECTION_HPP_
#define NEARKV_MODEL_CORRECTION_HPP_

#include <span>
#include <vector>

#include "estimate.hpp"
#include "sampling.hpp"

namespace nearkv::model {

struct CorrectedRow {
  std::vector<double> output;  ///< O
  double log2_sum;             ///< M + log2(Z · n): the base-2 LSE.
  double error;                ///< z · S, absolute; infinite if the sample told nothing.

  /// The error relative to |O|.
  [[nodiscard]] double bound() const;
};

/// Corrects every row. `sample` was drawn from `estimate` and its rows have been read into the
/// state since.
std::vector<CorrectedRow> correct(const Estimate& estimate, std::span<const SampledToken> sample,
                                  double standard_deviations);

/// The rows as the estimate has them, with an infinite error.
std::vector<CorrectedRow> uncorrected(const Estimate& estimate);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CORRECTION_HPP_
