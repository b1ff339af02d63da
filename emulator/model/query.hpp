// Query rows and exact scores (sections 1.1 and 1.5).
#ifndef NEARKV_MODEL_QUERY_HPP_
#define NEARKV_MODEL_QUERY_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verdict.hpp"

namespace nearkv::model {

/// A group of query rows as integers.
class Query {
 public:
  /// BAD_QUERY with the first row that holds a NaN or an infinity. `bytes` are the rows one after
  /// the other.
  static Verdict decode(std::span<const std::byte> bytes, uint8_t dtype, uint32_t rows,
                        uint32_t head_dim, Query* query);

  [[nodiscard]] size_t rows() const { return exponents_.size(); }

  /// q̄ of a row, |q̄| < 2^23.
  [[nodiscard]] std::span<const int32_t> row(size_t row) const {
    return std::span(integers_).subspan(row * head_dim_, head_dim_);
  }

  /// Eq of a row.
  [[nodiscard]] int exponent(size_t row) const { return exponents_[row]; }
  [[nodiscard]] std::span<const int> exponents() const { return exponents_; }

 private:
  size_t head_dim_ = 0;
  std::vector<int32_t> integers_;
  std::vector<int> exponents_;
};

/// S = Σ q̄ k̄, |S| < 2^59, in units of 2^(Eq + Ek − 301) (1.5).
int64_t exact_score(std::span<const int32_t> query, std::span<const int32_t> key);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_QUERY_HPP_
