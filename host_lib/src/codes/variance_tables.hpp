// What a variance of a score does, as tables (section 13 of ARITHMETIC.md), laid out for pages: all
// factors of a page's rows find their entries side by side.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "codes/energies.hpp"
#include "codes/page_kernels.hpp"

namespace nearkv {

inline constexpr int kLeastVariance = -160;
inline constexpr int kMostVariance = 96;
inline constexpr int kPlainVariance = 13;  ///< What a row without a factor has more.
inline constexpr std::size_t kFactors = 16;

/// Numbers by sixteenths of octaves from kFirst to kLast, the first and the last one going on for
/// ever; every kStep-th of them lie together.
template <typename T, int kStep, int kFirst, int kLast>
class StridedTable {
 public:
  template <typename Function>
  explicit StridedTable(const Function& function) {
    for (int x = kLowest; x < kLowest + kStep * static_cast<int>(kEntries); ++x) {
      place(x) = static_cast<T>(function(std::clamp(x, kFirst, kLast)));
    }
  }

  /// Those of first, first + kStep, .., kFactors of them.
  [[nodiscard]] const T* run(int first) const {
    const auto x = static_cast<unsigned>(std::clamp(first, kLowest, kLast) - kLowest);
    return entries_[x % kStep].data() + x / kStep;
  }

  [[nodiscard]] T at(int x) const { return *run(std::clamp(x, kFirst, kLast)); }

 private:
  static constexpr int kLowest = kFirst - kStep * static_cast<int>(kFactors - 1);
  static constexpr std::size_t kEntries = (kLast - kLowest) / kStep + kFactors + 1;

  T& place(int x) {
    const int distance = x - kLowest;
    return entries_[static_cast<std::size_t>(distance % kStep)]
                   [static_cast<std::size_t>(distance / kStep)];
  }

  std::array<std::array<T, kEntries>, kStep> entries_{};
};

/// By variance: two steps of a factor of K are four sixteenths.
template <typename T>
using VarianceTable = StridedTable<T, 4, kLeastVariance, kMostVariance>;

/// Numbers of a page's tokens by factor, beside each other, by what is that of factor 0 were it one
/// like the others: that of a row without a factor, which is kPlainVariance more, is in its place.
template <typename T, int kFirst, int kLast>
class FactorTable {
 public:
  explicit FactorTable(const StridedTable<T, 4, kFirst, kLast>& numbers) {
    for (int x = kLowest; x <= kLast; ++x) {
      auto& row = entries_[static_cast<std::size_t>(x - kLowest)];
      std::copy_n(numbers.run(x), kFactors, row.begin());
      row[0] = numbers.at(x + kPlainVariance);
    }
  }

  /// All kFactors of them.
  [[nodiscard]] const T* of(int lowest) const {
    return entries_[static_cast<std::size_t>(std::clamp(lowest, kLowest, kLast) - kLowest)].data();
  }

 private:
  static constexpr int kLowest = kFirst - 4 * static_cast<int>(kFactors - 1);

  alignas(64) std::array<std::array<T, kFactors>, kLast - kLowest + 1> entries_{};
};

struct VarianceTables {
  VarianceTable<std::int16_t> half;               ///< H
  VarianceTable<std::int16_t> key;                ///< KE
  VarianceTable<std::int16_t> value;              ///< VE
  VarianceTable<std::int16_t> excess;             ///< GE
  VarianceTable<std::int32_t> noise;              ///< 2^((v + kVarianceUnit) / 16), floored.
  StridedTable<std::int16_t, 4, -160, 160> part;  ///< W of minus a distance.
};
[[nodiscard]] const VarianceTables& variance_tables();

/// H, W of minus a distance, and terms of N of a page's tokens.
struct DrawTables {
  FactorTable<std::int16_t, kLeastVariance, kMostVariance> half;
  FactorTable<std::int16_t, -160, 160> part;
  FactorTable<std::int32_t, kLeastVariance, kMostVariance> noise;
};
[[nodiscard]] const DrawTables& draw_tables();

/// KE and VE of a page's tokens.
struct ErrorTables {
  FactorTable<std::int16_t, kLeastVariance, kMostVariance> key;
  FactorTable<std::int16_t, kLeastVariance, kMostVariance> value;
};
[[nodiscard]] const ErrorTables& error_tables();

/// E: 2^15 * 2^(i / 128).
[[nodiscard]] const std::array<std::uint16_t, 128>& weight_mantissas();

[[nodiscard]] constexpr bool is_nothing(int energy) { return energy < kLeastOfSome; }

/// A: what the logarithm of a sum has more than the larger one's, by their distance; 0 from 96 on.
[[nodiscard]] const std::array<std::int8_t, 128>& log_sum_excess();

/// x + y as logarithms.
[[nodiscard]] inline int log_sum(int x, int y) {
  const int distance = std::abs(x - y);
  return std::max(x, y) +
         (distance < 96 ? log_sum_excess()[static_cast<std::size_t>(distance)] : 0);
}

/// floor(2^(sixteenths / 16 + bits)) for results below 2^63.
[[nodiscard]] std::int64_t octaves_fixed(int sixteenths, int bits);

}  // namespace nearkv
