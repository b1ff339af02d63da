// Exact scores of chosen tokens (ARITHMETIC.md 1.5), for every row of a query.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>

#include "attend/query.hpp"
#include "page/row_source.hpp"

namespace nearkv {

/// A query's aligned integers split into two halves that binary64 sums exactly, in kernel order.
class ExactScorer {
 public:
  /// `key_exponent` is the list's Ek.
  ExactScorer(const Query& query, int key_exponent);

  [[nodiscard]] std::size_t rows() const { return rows_; }

  /// scores[row] = S of token `token`. Thread-safe.
  void score(const RowSource& keys, std::size_t token, std::int64_t* scores) const;

  /// Real value of one score unit for a row.
  [[nodiscard]] double unit(std::size_t row) const { return units_[row]; }

 private:
  std::size_t rows_;
  std::size_t dim_;
  double key_scale_;                                ///< 2^(152 - Ek).
  hwy::AlignedFreeUniquePtr<double[]> high_, low_;  ///< q = 4096 * high + low, [rows][dim].
  hwy::AlignedFreeUniquePtr<double[]> units_;
};

}  // namespace nearkv
