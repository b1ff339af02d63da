// The running softmax of one row and its result (section 4).
#ifndef NEARKV_MODEL_SOFTMAX_HPP_
#define NEARKV_MODEL_SOFTMAX_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "number.hpp"

namespace nearkv::model {

/// M before any token was seen.
inline constexpr int64_t kNoReference = -(int64_t{1} << 31) + 1;

/// M, z and acc of one row.
class RowSoftmax {
 public:
  explicit RowSoftmax(size_t value_dim) : acc_(value_dim) {}

  /// Raises the reference to the largest of itself and integer_part(logit) of all logits that are
  /// about to be added.
  void raise_reference(int64_t largest_integer_part);

  /// Adds a token.
  void add(int64_t logit, std::span<const int32_t> value);

  /// Adds all tokens of a page that are not read (7.3): `weight` is P, `value_sum` V_c.
  void add_rest(int64_t weight, std::span<const int64_t> value_sum, int64_t reciprocal);

  /// Whether a token was added.
  [[nodiscard]] bool has_tokens() const { return z_ != 0; }
  [[nodiscard]] int64_t reference() const { return reference_; }

  /// O (4.1); zeros without tokens.
  [[nodiscard]] std::vector<float> output(int value_exponent) const;

  /// LSE, natural or base 2 (4.1); −∞ without tokens.
  [[nodiscard]] float log_sum_exp(bool base2) const;

 private:
  int64_t reference_ = kNoReference;
  int64_t z_ = 0;            // Units of 2^−41.
  std::vector<Int128> acc_;  // Units of 2^(Ev − 167). Honest pages leave it within 64 bits.
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_SOFTMAX_HPP_
