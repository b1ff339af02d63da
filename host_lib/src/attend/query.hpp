// The query rows of a command, as floats and as the aligned integers of the exact arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "page/page_list.hpp"
#include "page/window.hpp"

namespace nearkv {

class Query {
 public:
  /// Reads rows [rows][dim] of `dtype`. kAddressFault, or kBadQuery with the first row that holds a
  /// NaN or an infinity.
  Outcome load(const Window& window, std::uint64_t address, std::size_t rows, std::size_t dim,
               std::uint8_t dtype);

  /// Takes rows from memory that is no command's.
  Outcome load(std::span<const std::byte> bytes, std::size_t rows, std::size_t dim,
               std::uint8_t dtype);

  [[nodiscard]] std::size_t rows() const { return exponents_.size(); }
  [[nodiscard]] std::size_t dim() const { return dim_; }

  /// Row as binary32, channel order.
  [[nodiscard]] std::span<const float> values(std::size_t row) const {
    return std::span(values_).subspan(row * dim_, dim_);
  }
  /// All rows, one after the other.
  [[nodiscard]] std::span<const float> values() const { return values_; }
  /// Row as QUERY_BITS integers (ARITHMETIC.md 1.1).
  [[nodiscard]] std::span<const std::int32_t> aligned(std::size_t row) const {
    return std::span(aligned_).subspan(row * dim_, dim_);
  }
  /// Eq of the row.
  [[nodiscard]] int exponent(std::size_t row) const { return exponents_[row]; }

 private:
  std::size_t dim_ = 0;
  std::vector<float> values_;
  std::vector<std::int32_t> aligned_;
  std::vector<int> exponents_;
};

/// Value of one score unit for a row: 2^(Eq + Ek - 301).
[[nodiscard]] double score_unit(int query_exponent, int key_exponent);

}  // namespace nearkv
