// How much each token that is known only approximately may add to the squared error of each row
// (ARITHMETIC.md 8: a^2 and A).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/inclusion.hpp"
#include "attend/tail_sums.hpp"

namespace nearkv {

class ErrorModel {
 public:
  ErrorModel(const AttendContext& context, const TailSums* sums);

  /// Takes the outputs of a new state. Call after TailSums::summarise.
  void set_state(const SoftmaxState& state);

  /// Sorts every inexact token into a bin by its contribution relative to the rows' targets.
  void bin_contributions(std::span<const double> targets, ContributionBins* bins);

  /// Marks the inexact tokens in bins from `lowest` up.
  void choose_from(int lowest, std::span<std::uint64_t> chosen) const;

  /// Bin of a token that bin_contributions has sorted.
  [[nodiscard]] int bin(std::size_t page, std::size_t token) const {
    return page_bins_[page] >= 0 ? page_bins_[page] : token_bins_[page * NKV_PAGE_TOKENS + token];
  }

  /// O^ of a row, in kernel order, and its length.
  [[nodiscard]] std::span<const float> output(std::size_t row) const {
    return std::span(outputs_).subspan(row * sums_.dim(), sums_.dim());
  }
  [[nodiscard]] double output_norm(std::size_t row) const { return norms_[row]; }

 private:
  /// Per page and row: a^2 = spread (p - mean)^2 + noise p^2, both already divided by (Z T)^2.
  struct Factors {
    float spread = 0;
    float noise = 0;
    float mean = 0;
  };

  void measure_pages(std::span<const double> targets);
  void bin_page(std::size_t page, float floor, ContributionBins* bins);

  const AttendContext& context_;
  const TailSums& sums_;
  std::vector<float> outputs_;
  std::vector<double> norms_;
  std::vector<double> totals_;           ///< Z per row.
  std::vector<float> references_;        ///< The state's maxima.
  std::vector<Factors> factors_;         ///< [pages][rows].
  std::vector<float> page_squares_;      ///< Sum of A^2 over a page's inexact tokens.
  std::vector<std::int16_t> page_bins_;  ///< Bin of all tokens of a quiet page, or -1.
  std::vector<std::uint8_t> token_bins_;
};

}  // namespace nearkv
