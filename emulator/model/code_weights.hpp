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
  /// Takes means and spreads of coded pages from the scan's scores; `scores` must outlive the
  /// weights.
  explicit CodeWeights(const CodeScores& scores);

  /// Takes the scores as they are now.
  void update();

  /// P of a visible token.
  [[nodiscard]] int64_t score(size_t row, size_t page, uint32_t token) const {
    return drawn_[(row * scores_->list().size() + page) * NKV_PAGE_TOKENS + token];
  }

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
  [[nodiscard]] int64_t drawn(size_t row, size_t page, uint32_t token) const;

  const CodeScores* scores_;
  std::vector<Prior> priors_;   // [row][page]
  std::vector<int64_t> drawn_;  // P, [row][page][token]
};

/// P of a token (13.1): its score R, drawn to a mean μ by 2^15 − part, where `half` is H and `part`
/// W.
int64_t drawn_score(int64_t above, int64_t mean, int64_t half, int64_t part);

/// W: 2^15 times the part of a spread in spread and variance, by how much the spread is larger.
int64_t spread_part(int distance);

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
