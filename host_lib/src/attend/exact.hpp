// Exact scores of chosen tokens (ARITHMETIC.md 1.5), for every row of a query.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/query.hpp"
#include "page/row_source.hpp"

namespace nearkv {

/// A query's aligned integers, in kernel order.
class ExactScorer {
 public:
  /// `key_exponent` is the list's Ek.
  ExactScorer(const Query& query, int key_exponent);

  [[nodiscard]] std::size_t rows() const { return rows_; }

  /// S of the page's tokens in `tokens`, ascending: scores[index * rows() + row]. Thread-safe.
  void score(const RowSource& keys, std::uint64_t tokens, std::int64_t* scores) const;

  /// Real value of one score unit for a row.
  [[nodiscard]] double unit(std::size_t row) const { return units_[row]; }

 private:
  std::size_t rows_;
  int key_exponent_;
  hwy::AlignedFreeUniquePtr<std::int32_t[]> aligned_;  ///< [rows][dim].
  std::vector<double> units_;
};

}  // namespace nearkv
