// The score by which TOPK INDEXER ranks tokens (section 6).
#ifndef NEARKV_MODEL_INDEXER_HPP_
#define NEARKV_MODEL_INDEXER_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nearkv::model {

/// ŵ of each row, and X, the exponent that they share.
class IndexerWeights {
 public:
  /// `weights` are binary32 patterns, all finite, and Eq of each row.
  IndexerWeights(std::span<const uint32_t> weights, std::span<const int> query_exponents);

  /// A of a token, given its S of each row: |A| < 2^63.
  [[nodiscard]] int64_t sum(std::span<const int64_t> scores) const;

  [[nodiscard]] int exponent() const { return exponent_; }

 private:
  std::vector<int64_t> integers_;
  int exponent_ = 0;
};

/// R of a token: what it is ranked by. `key_scale` is the pattern of κ, finite.
int64_t indexer_rank(int64_t sum, uint32_t key_scale);

/// The score that R stands for, in binary64, unscaled.
double indexer_score(int64_t rank, int weight_exponent, int key_exponent);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_INDEXER_HPP_
