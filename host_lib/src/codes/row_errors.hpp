// Errors of all rows against their goals, round by round (sections 13.3 to 13.5 of ARITHMETIC.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codes/code_errors.hpp"
#include "codes/code_state.hpp"
#include "device/workers.hpp"

namespace nearkv {

/// Granules by the error that they hold for each burst of a plane.
class ErrorHistogram {
 public:
  void add(const ErrorHistogram& other);
  /// As PageKernels::worst counts them.
  [[nodiscard]] ErrorBins& bins() { return bins_; }

  /// What is left of the errors at each threshold, from kLeastThreshold to kMostErrorBin, if
  /// granules from `cut` bins above it are read: for each burst of a plane of one, 24 fraction
  /// bits.
  static constexpr int kLeastThreshold = -102;
  static constexpr std::size_t kThresholds = kMostErrorBin - kLeastThreshold + 1;
  using Left = std::array<Int128, kThresholds>;
  [[nodiscard]] Left left(int cut) const;

 private:
  ErrorBins bins_{};
};

/// What each row's error is, and where.
class RowErrors {
 public:
  void reset(const CodeState& state);

  [[nodiscard]] GranuleLogs& logs() { return logs_; }
  [[nodiscard]] ValueScales& scales() { return scales_; }
  /// |r|^2 of a page's factor 15; kNothing without residuals.
  [[nodiscard]] int residual(std::size_t page) const { return scales_.residuals[page]; }

  /// Measures all rows anew.
  void measure(const CodeState& state, const CodeSums& sums, int value_exponent,
               const ErrorDemand& demand, Workers* workers);

  [[nodiscard]] std::int64_t total(std::size_t row) const { return totals_[row]; }
  /// Rows beyond their goal.
  [[nodiscard]] std::span<const std::uint32_t> left() const { return left_; }

  /// Counts all granules of those rows: of keys, and of values. page_errors() has their errors
  /// then.
  [[nodiscard]] std::array<ErrorHistogram, 2> count(const CodeState& state, Workers* workers);

  /// K of a page's granules of keys, and behind them prices of those of values: the largest of the
  /// rows that are left, kNoLog16 of nothing, in 16 bits. As many numbers may be read as a page has
  /// tokens.
  [[nodiscard]] const std::int16_t* page_errors(std::size_t page) const {
    return page_errors_.data() + page * (key_count_ + value_count_);
  }

  /// The largest of them of keys, and of values; kNoLog16 of a page without any.
  [[nodiscard]] int worst_key(std::size_t page) const { return worst_keys_[page]; }
  [[nodiscard]] int worst_value(std::size_t page) const { return worst_values_[page]; }

  /// d^2.
  [[nodiscard]] int distance(std::size_t page, std::size_t row) const {
    return distances_[page * rows_ + row];
  }
  /// c: a page's part of its tokens' energies.
  [[nodiscard]] int energy(const RowPage& page, std::size_t row) const;

 private:
  struct Part {
    Int128 total = 0;
    Int128 coherent = 0;
  };

  void measure_pages(const CodeState& state, std::size_t begin, std::size_t end,
                     std::span<Part> parts);
  void find_distances(const CodeState& state, std::size_t begin, std::size_t end, std::size_t row,
                      std::int32_t* distances) const;

  std::size_t rows_ = 0;
  const PageKernels* kernels_ = nullptr;
  std::size_t key_count_ = 0;
  std::size_t value_count_ = 0;
  std::size_t padded_ = 0;  // Channels of an output.
  GranuleLogs logs_;
  AlignedNumbers<std::int16_t> key_energies_;  // K, as logs,
  AlignedNumbers<std::int16_t> prices_;        // and prices,
  AlignedNumbers<std::int16_t> page_errors_;   // and the largest ones, [pages].
  std::vector<std::int16_t> worst_keys_;       // The largest of those of a page,
  std::vector<std::int16_t> worst_values_;     // and of values.
  AlignedNumbers<std::int16_t> outputs_;       // o, [rows][padded].
  ValueScales scales_;
  std::vector<RowGoal> goals_;
  std::vector<std::int32_t> distances_;  // [pages][rows]
  std::vector<std::int64_t> totals_;
  std::vector<std::uint32_t> left_;
  std::vector<Part> parts_;                            // [workers][rows]
  std::vector<std::array<ErrorHistogram, 2>> counts_;  // [workers]
};

}  // namespace nearkv
