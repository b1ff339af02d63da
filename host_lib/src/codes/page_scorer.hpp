// Scores of one page's tokens by codes, and their weights (sections 12.2, 12.3, 13.1 of
// ARITHMETIC.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codes/code_state.hpp"
#include "codes/page_kernels.hpp"

namespace nearkv {

/// A worker's own: it holds buffers of a page.
class PageScorer {
 public:
  /// `state` must outlive it. Keys have `dim` channels.
  void begin(CodeState* state, std::size_t dim);

  /// Scores all visible tokens of a page by plane 0, in all rows. Returns whether a score is loud.
  bool scan(std::size_t page);

  /// After scan(): mu and tau of a page, which stay, and weights of its tokens.
  void draw(std::size_t page);

  /// P, n_p and Z of a page, after any of its scores or reads changed.
  void weigh(std::size_t page);

  /// Scores tokens of a page anew, by so many planes. Returns whether a score is loud.
  bool refine(std::size_t page, std::uint64_t tokens, int planes);

 private:
  void sum_planes(const CodedPage& coded, const CodeQuery::SetRows& set, int planes);
  void weigh_row(std::size_t page, std::size_t row);
  bool score_row_slowly(std::size_t page, std::size_t row, std::uint64_t tokens,
                        const std::int32_t* sums, int planes);

  CodeState* state_ = nullptr;
  const PageKernels* kernels_ = nullptr;
  std::size_t dim_ = 0;
  AlignedNumbers<std::uint8_t> factors_;
  AlignedNumbers<std::int16_t> sums_;     // [rows][PAGE_TOKENS]
  AlignedNumbers<std::int16_t> half_;     // H,
  AlignedNumbers<std::int16_t> part_;     // and W of a page's tokens.
  AlignedNumbers<std::int32_t> refined_;  // [rows][PAGE_TOKENS]
  std::vector<std::int64_t> products_;
  std::vector<ScoreSums> row_sums_;
  std::array<std::int32_t, kFactors> counts_{};  // Visible tokens by factor.
};

}  // namespace nearkv
