// Scores of whole pages in binary32, and how far from the exact ones (ARITHMETIC.md 1.5) they are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "attend/bf16_pages.hpp"
#include "attend/dense.hpp"
#include "attend/query.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// Scores every token of a page as fast as dense attention does. A row's scores have a unit of
/// their own, in which no sum overflows and none that matters underflows.
class RoundedScorer {
 public:
  /// `key_exponent` is the list's Ek.
  RoundedScorer(const Query& query, int key_exponent);

  [[nodiscard]] std::size_t rows() const { return slack_.size(); }

  /// scores[row * PAGE_TOKENS + t] of all tokens, which stay in `scratch` until it is used again.
  /// Those of tokens that take no part may be anything, even NaN. `next` is the page after this
  /// one, to be fetched ahead, or null. Thread-safe.
  [[nodiscard]] std::span<const float> score(const PageView& page, const std::byte* next,
                                             DenseScratch* scratch, SpanScope* scope) const;

  /// Two scores of a row that differ by more than this stand in the order of the exact ones.
  [[nodiscard]] float slack(std::size_t row) const { return slack_[row]; }

 private:
  RoundedScorer(std::span<const float> rows, std::size_t dim, int key_exponent);

  std::vector<float> slack_;
  DenseQuery portable_;
  Bf16Pages bf16_;
};

}  // namespace nearkv
