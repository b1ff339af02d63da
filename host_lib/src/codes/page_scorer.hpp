// Scores of pages' tokens by codes, and their weights (sections 12.2, 12.3, 13.1 of
// ARITHMETIC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codes/code_state.hpp"
#include "codes/page_kernels.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv {

/// A worker's own: it holds buffers of some pages. A scan goes step by step over these pages, so
/// that one page's step need not wait for the one before it.
class PageScorer {
 public:
  /// `state` must outlive it. Keys have `dim` channels.
  void begin(CodeState* state, std::size_t dim);

  /// Scores all visible tokens of pages from `first` to `end`, at most kPagesAtATime, by plane 0,
  /// in all rows; plain pages apart. Returns whether a score is loud.
  bool scan(std::size_t first, std::size_t end);

  /// After scan(), of the same pages: mu and tau, which stay, and weights. P of tokens is kept only
  /// if `keeps_drawn`.
  void draw(bool keeps_drawn);

  /// P, n_p and Z of a page, after any of its scores or reads changed.
  void weigh(std::size_t page);

  /// Scores tokens of a page anew, each by as many planes as its set says, from two on. Returns
  /// whether a score is loud.
  bool refine(std::size_t page, const PlaneTokens& tokens);

 private:
  bool scale();
  bool score(std::size_t place);
  bool score_loud_row(std::size_t place, std::size_t row);
  void find_spreads();
  void find_part_spreads(std::size_t place, std::int64_t tokens);
  void weigh_coded(std::size_t page, const DrawnRow* drawn_rows, std::int16_t* drawn);
  void find_tables(const PageReads& reads, int lowest, const RowPage& scored,
                   DrawnRow* drawn) const;
  bool refine_slow_rows(std::size_t page, const PlaneTokens& tokens);
  bool score_row_slowly(std::size_t page, std::size_t row, std::uint64_t tokens,
                        const std::int32_t* sums, int planes);

  CodeState* state_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  std::size_t dim_ = 0;
  const DrawTables* tables_ = nullptr;
  std::vector<std::size_t> pages_;     // Those that are scanned; their numbers follow.
  AlignedNumbers<std::int16_t> sums_;  // [places][rows][PAGE_TOKENS]
  std::vector<int> lowest_;            // nu of a factor of 0, [places][rows] as what follows.
  std::vector<MeanSums> mean_sums_;
  std::vector<std::int32_t> powers_;
  std::vector<std::int32_t> octaves_;
  std::vector<std::int16_t> fractions_;
  std::vector<std::int16_t> means_;
  std::vector<std::int16_t> log_spreads_;
  std::vector<ScoredRow> scored_rows_;
  std::vector<ScoreSums> row_sums_;
  std::vector<DrawnRow> drawn_rows_;
  AlignedNumbers<std::int32_t> refined_;  // Of one page, [rows][PAGE_TOKENS],
  AlignedNumbers<std::int16_t> drawn_;    // the same, of one whose P is not kept.
  std::vector<PageWeight> weights_;
  std::vector<RefinedRow> refined_rows_;
};

}  // namespace nearkv
