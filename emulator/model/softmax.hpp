// The running softmax of one row and its result (section 4).
#ifndef NEARKV_MODEL_SOFTMAX_HPP_
#define NEARKV_MODEL_SOFTMAX_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "logit.hpp"
#include "number.hpp"

namespace nearkv::model {

/// M before any token was seen.
inline constexpr int64_t kNoReference = -(int64_t{1} << 31) + 1;

/// |acc / z| = magnitude · 2^power, truncated (4.1).
struct Quotient {
  uint64_t magnitude;
  int power;
};

/// `z` is positive.
Quotient quotient_of(int64_t acc, int64_t z);

/// log2 of a positive number with 24 fraction bits (4.1).
int64_t log2_fixed(uint64_t number);

/// M, z and acc of one row.
class RowSoftmax {
 public:
  explicit RowSoftmax(size_t value_dim) : acc_(value_dim) {}
  RowSoftmax(int64_t reference, int64_t z, std::vector<int64_t> acc)
      : reference_(reference), z_(z), acc_(std::move(acc)) {}

  /// Raises the reference to the largest of itself and integer_part(logit) of all logits that are
  /// about to be added.
  void raise_reference(int64_t largest_integer_part);

  /// Adds a token, whose weight is against reference().
  void add(const Weight& weight, std::span<const int32_t> value);

  /// Adds to acc what no token's weight tells.
  void add_values(std::span<const int64_t> values);

  [[nodiscard]] int64_t z() const { return z_; }
  [[nodiscard]] std::span<const int64_t> acc() const { return acc_; }

  /// Whether a token was added.
  [[nodiscard]] bool has_tokens() const { return z_ != 0; }
  [[nodiscard]] int64_t reference() const { return reference_; }

  /// O (4.1); zeros without tokens.
  [[nodiscard]] std::vector<float> output(int value_exponent) const;

  /// LSE, natural or base 2 (4.1); −∞ without tokens.
  [[nodiscard]] float log_sum_exp(bool base2) const;

 private:
  int64_t reference_ = kNoReference;
  int64_t z_ = 0;             // Units of 2^−41.
  std::vector<int64_t> acc_;  // Units of 2^(Ev − 167).
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_SOFTMAX_HPP_
