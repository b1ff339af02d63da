// Logits of exact scores as integers (sections 3.1, 3.2 and 3.4 of ARITHMETIC.md).
#pragma once

#include <cstdint>

namespace nearkv {

__extension__ typedef __int128 Int128;  // NOLINT(modernize-use-using)

inline constexpr std::int64_t kMostLogit = (std::int64_t{1} << 47) - 1;  ///< L of either sign.

/// value * 2^n, floored, saturated to +-limit.
[[nodiscard]] std::int64_t scale_saturating(Int128 value, int n, std::int64_t limit);

/// log2 of a positive number with 24 fraction bits (4.1).
[[nodiscard]] std::int64_t log2_fixed(std::uint64_t number);

/// A command's scale times log2 e: +-factor * 2^power of a unit of scores of exponents 0.
class LogitScale {
 public:
  /// `scale` is a normal number.
  explicit LogitScale(float scale);

  /// L of a score whose query row and key list have those exponents; no soft cap.
  [[nodiscard]] std::int64_t logit(std::int64_t score, int query_exponent, int key_exponent) const;

  [[nodiscard]] std::int32_t factor() const { return factor_; }
  /// e_s + b - 411.
  [[nodiscard]] int power() const { return power_; }

 private:
  std::int32_t factor_;
  int power_;
};

/// The 18-bit mantissa of the weight of a logit, and by how many octaves it lies below a reference.
struct LogitWeight {
  std::int32_t mantissa;
  std::int64_t shift;

  static constexpr std::int64_t kLargestShift = 42;
  [[nodiscard]] bool is_zero() const { return shift > kLargestShift; }
};
[[nodiscard]] LogitWeight weight_of(std::int64_t logit, std::int64_t reference);

}  // namespace nearkv
