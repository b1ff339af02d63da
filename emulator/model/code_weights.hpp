// The weights that tokens get from what codes tell of their scores (sections 13.1, 13.2).
#ifndef NEARKV_MODEL_CODE_WEIGHTS_HPP_
#define NEARKV_MODEL_CODE_WEIGHTS_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "code_scores.hpp"

namespace nearkv::model {

class CodeWeights {
 public:
  /// Takes means and spreads of pages from the scan's scores; `scores` must outlive the weights.
  explicit CodeWeights(const CodeScores& scores);

  /// P of a visible token.
  [[nodiscard]] int64_t score(size_t row, size_t page, uint32_t token) const;

  /// n: the largest P >> 7 of a page.
  [[nodiscard]] int64_t octave(size_t row, size_t page) const;

  /// p of a token whose page has that octave: its weight times 2^(15 − octave).
  [[nodiscard]] int64_t weight(size_t row, size_t page, uint32_t token, int64_t octave) const;

 private:
  struct Prior {
    int64_t mean = 0;    // μ
    int log_spread = 0;  // τ
  };

  [[nodiscard]] Prior prior_of(size_t row, size_t page) const;

  const CodeScores* scores_;
  std::vector<Prior> priors_;  // [row][page]
};

/// What an error of a natural logit does, by ν (section 13): H of a logit, KE, VE and GE.
struct VarianceEffects {
  int64_t half;  ///< H
  int key;       ///< KE
  int value;     ///< VE
  int excess;    ///< GE
};
VarianceEffects variance_effects(int variance);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_WEIGHTS_HPP_
