// Attention from a set of exact tokens and page means for all others: TAIL's result, and what
// BOUNDED starts from and corrects (ARITHMETIC.md 7).
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/attend.hpp"
#include "attend/exact_rows.hpp"
#include "attend/row_logits.hpp"
#include "attend/sparse.hpp"
#include "attend/traffic.hpp"

namespace nearkv {

/// Bursts of one page's chosen value rows and, in DELTA4, its channel exponents; none without rows
/// of its own.
[[nodiscard]] std::uint64_t value_bursts(const PageView& view, std::uint64_t chosen);

/// Visible tokens of pages that are only partly visible or whose midpoints do not fit: always read
/// exactly.
void mark_unsafe(const PlaneScan& scan, std::span<std::uint64_t> exact);

/// Grows as tokens become exact. All vectors of values are in kernel order.
class TailSums {
 public:
  /// `context` and `request` must outlive this.
  TailSums(const AttendContext& context, const AttendSpec& request);

  /// Once context.scan has run: prepares logits and finds the shape of the values. kOk with dim() 0
  /// if nothing is visible.
  Outcome start();

  /// Reads the key and value rows of `chosen` (a mask per page, none exact yet) and makes them
  /// exact.
  Outcome add_exact(std::span<const std::uint64_t> chosen, Traffic* traffic);

  /// Sums exact tokens and the page means of all others into `state`.
  Outcome summarise(SoftmaxState* state, Traffic* traffic);

  /// Mean value of a page's tokens that are not exact, [dim()], as summarised.
  [[nodiscard]] const float* mean(std::size_t page) const { return means_.data() + page * dim_; }

  /// Per row, the largest logit of a midpoint that is not exact.
  [[nodiscard]] std::vector<float> midpoint_references() const;

  /// Opens a page that has passed the scan, for its values.
  Status open(std::size_t page, PageView* view) const;

  [[nodiscard]] std::size_t dim() const { return dim_; }
  [[nodiscard]] std::size_t rows() const { return context_.query.rows(); }
  /// Tokens of a page that take part and are not exact.
  [[nodiscard]] std::uint64_t rest(std::size_t page) const {
    return context_.scan->visible(page) & ~exact_[page];
  }
  [[nodiscard]] const RowLogits& logits(std::size_t row) const { return logits_[row]; }
  [[nodiscard]] const ExactScorer& scorer() const { return scorer_; }

 private:
  /// Sum of the values of a page's exact tokens; null if it has none.
  [[nodiscard]] const float* exact_sum(std::size_t page) const;
  Outcome add_scored(std::span<const std::uint64_t> chosen, const ExactTokens& tokens,
                     Traffic* traffic);
  Status take_mean(std::size_t page, Traffic* traffic);

  const AttendContext& context_;
  const AttendSpec& request_;
  std::vector<RowLogits> logits_;
  ExactScorer scorer_;
  std::size_t dim_ = 0;
  std::vector<std::int32_t> channels_;  ///< Of the value rows, in kernel order.
  std::vector<std::uint64_t> exact_;
  SoftmaxState exact_state_;
  std::vector<std::int32_t> sum_index_;  ///< Per page: which of exact_sums_, or -1.
  std::vector<float> exact_sums_;
  std::vector<float> means_;  ///< [pages][dim].
};

}  // namespace nearkv
