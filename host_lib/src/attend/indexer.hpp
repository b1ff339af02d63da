// The score by which TOPK INDEXER ranks tokens (ARITHMETIC.md 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/query.hpp"

namespace nearkv {

/// The weights of a query's rows, made ready for one page list. Const use is safe from any thread.
class IndexerScorer {
 public:
  /// One finite weight per row; `key_exponent` is the list's Ek.
  IndexerScorer(std::span<const float> weights, const Query& query, int key_exponent);

  /// R of a token from its exact scores of all rows and its finite key scale: larger is better.
  [[nodiscard]] std::int64_t rank(std::span<const std::int64_t> scores, float key_scale) const;

  /// The score that R stands for.
  [[nodiscard]] double score(std::int64_t rank) const;

 private:
  std::vector<std::int64_t> weights_;
  int power_ = 0;  ///< X + Ek - 599.
};

}  // namespace nearkv
