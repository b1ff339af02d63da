// A query before codes (section 12 of ARITHMETIC.md): its rows by sign set, as tables of what
// channels add to a sum over a plane.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "attend/query.hpp"
#include "codes/aligned_numbers.hpp"
#include "codes/exact_logit.hpp"
#include "codes/page_kernels.hpp"
#include "codes/variance_tables.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// No variance of a search is larger (14.2).
inline constexpr int kSearchVariance = 176;

/// By what a variance is less after b planes than after one; after none, for rows without a factor.
inline constexpr std::array<int, NKV_KEY_CODE_PLANES + 1> kKeyVariances = {kPlainVariance, 0, -33,
                                                                           -61, -84};

inline constexpr int kExactToCode = 16 - kCodeLogitBits;  ///< Fraction bits that logits lose.
inline constexpr std::int32_t kLoudMultiplier = 1 << 15;
inline constexpr std::int32_t kLoudResidual = 1 << 14;

/// Thread safety: once prepared, all but prepare() from any threads.
class CodeQuery {
 public:
  /// Rows of a query, `gains` one for each channel.
  void prepare(const Query& query, std::span<const std::int8_t> gains, float scale);

  /// The same for a search (14.2), whose rows have a scale of their own each. `top` is the list's.
  void prepare_search(const Query& query, std::span<const std::int8_t> gains, int top);

  /// L (3.2) of an exact score S in a search. `key_exponent` is the list's Ek.
  [[nodiscard]] std::int64_t search_logit(std::size_t row, std::int64_t score,
                                          int key_exponent) const;

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] std::size_t dim() const { return dim_; }

  /// All rows under a sign set.
  struct SetRows {
    /// [rows]: those of sums over a plane (PageKernels::plane_sums).
    AlignedNumbers<std::int16_t> tables;
    std::vector<int> power;             ///< a
    std::vector<int> first_multiplier;  ///< Of plane 0 and factor 0, were its page's top 0.
    std::vector<std::int32_t> length;   ///< Sum of |w|,
    std::vector<std::int32_t> total;    ///< and of w.
    std::vector<std::int16_t> weights;  ///< w, [rows][padded()], zero behind dim().
  };
  /// Made when it is first asked for.
  [[nodiscard]] const SetRows& under(unsigned set) const;

  /// Rows as two halves each, upper * 2^12 + lower, of padded() numbers, zero behind dim().
  [[nodiscard]] const std::int16_t* halves() const { return halves_.data(); }
  [[nodiscard]] std::size_t padded() const { return padded_; }

  [[nodiscard]] bool is_zero(std::size_t row) const { return rows_[row].is_zero; }
  /// Lambda: the variance after one plane under a factor of 2^0, were it not bounded below.
  [[nodiscard]] int variance(std::size_t row) const { return rows_[row].variance; }

  /// C
  [[nodiscard]] std::int32_t factor() const { return factor_; }
  /// By how many octaves the product of C and half a sum of a mean's products is to be moved to be
  /// a logit (12.2), were the mean's power 0.
  [[nodiscard]] int mean_power(std::size_t row) const {
    return rows_[row].power + kCodeLogitBits + 1;
  }

  /// m of factors 0 to 15 (12.3) after `planes` planes of a page with that top, at most 2^15 - 1;
  /// of factor 0, what it would be if it were one like the others.
  [[nodiscard]] const std::int16_t* multipliers(std::size_t row, const SetRows& set, int top,
                                                int planes) const {
    return multipliers_[static_cast<std::size_t>(planes - 1)]->run(top + set.first_multiplier[row] -
                                                                   16 * (planes - 1));
  }

  /// m of a factor of so many sixteenths, at most kLoudMultiplier.
  [[nodiscard]] std::int32_t exact_multiplier(std::size_t row, const SetRows& set, int sixteenths,
                                              int planes) const;

 private:
  struct Row {
    int power = 0;                  // kappa
    int variance = kLeastVariance;  // Lambda
    bool is_zero = true;
    int exponent = 0;      // Eq
    int search_power = 0;  // s
  };

  void prepare_rows(const Query& query, std::span<const std::int8_t> gains);
  void tabulate_multipliers();
  void prepare_row(const Query& query, std::size_t row, std::span<const std::int8_t> gains);
  void prepare_set(unsigned set) const;
  void take_weights(const RowWeights& weights, std::size_t row, SetRows* made) const;

  /// m by sixteenths of octaves of factor, scale and set together.
  using MultiplierTable = StridedTable<std::int16_t, 2, -48 * 16, -20 * 16>;

  std::size_t dim_ = 0;
  std::size_t padded_ = 0;
  std::int32_t factor_ = 0;  // C
  int power_ = 0;            // u
  bool negative_ = false;
  std::vector<Row> rows_;
  std::vector<std::int32_t> values_;  // q^, [rows][dim]
  AlignedNumbers<std::int16_t> halves_;
  std::vector<std::unique_ptr<MultiplierTable>> multipliers_;  // By planes - 1.
  std::int32_t tabulated_factor_ = 0;

  mutable std::array<SetRows, NKV_SIGN_SETS> sets_;
  mutable std::array<std::atomic<bool>, NKV_SIGN_SETS> are_made_{};
  mutable std::mutex mutex_;
};

}  // namespace nearkv
