// Scores of one page's tokens by codes, and their weights (sections 12.2, 12.3, 13.1 of
// ARITHMETIC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codes/code_state.hpp"
#include "codes/page_kernels.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {

/// A worker's own: it holds buffers of a page.
class PageScorer {
 public:
  /// `state` must outlive it. Keys have `dim` channels.
  void begin(CodeState* state, std::size_t dim);

  /// Scores all visible tokens of a page by plane 0, in all rows. Returns whether a score is loud.
  bool scan(std::size_t page);

  /// After scan(): mu and tau of a page, which stay, and its weights. P of its tokens is kept only
  /// if `keeps_drawn`.
  void draw(std::size_t page, bool keeps_drawn);

  /// P, n_p and Z of a page, after any of its scores or reads changed.
  void weigh(std::size_t page);

  /// Scores tokens of a page anew, each by as many planes as its set says, from two on. Returns
  /// whether a score is loud.
  bool refine(std::size_t page, const PlaneTokens& tokens);

 private:
  bool score_loud_row(std::size_t page, std::size_t row);
  void weigh_coded(std::size_t page, std::int16_t* drawn);
  void find_tables(const PageReads& reads, int lowest, const RowPage& scored,
                   DrawnRow* drawn) const;
  bool refine_slow_rows(std::size_t page, const PlaneTokens& tokens);
  bool score_row_slowly(std::size_t page, std::size_t row, std::uint64_t tokens,
                        const std::int32_t* sums, int planes);

  CodeState* state_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  std::size_t dim_ = 0;
  const DrawTables* tables_ = nullptr;
  AlignedNumbers<std::int16_t> sums_;     // [rows][PAGE_TOKENS]
  AlignedNumbers<std::int32_t> refined_;  // The same,
  AlignedNumbers<std::int16_t> drawn_;    // and of a page whose P is not kept.
  std::vector<std::int64_t> products_;    // Of a page's mean, by row, as what follows.
  std::vector<ScoredRow> scored_rows_;
  std::vector<ScoreSums> row_sums_;
  std::vector<DrawnRow> drawn_rows_;
  std::vector<PageWeight> weights_;
  std::vector<RefinedRow> refined_rows_;
};

}  // namespace nearkv
