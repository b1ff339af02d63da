// Numbers as ARITHMETIC.md section 1 takes them apart, and the shifts that all sections use.
#ifndef NEARKV_MODEL_NUMBER_HPP_
#define NEARKV_MODEL_NUMBER_HPP_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace nearkv::model {

__extension__ typedef __int128 Int128;

/// One element: ±significand · 2^(exponent − 150), the form of a normal binary32 number.
/// Zero has significand and exponent 0; so has a number that is not finite.
struct Number {
  bool negative = false;
  bool finite = true;
  int exponent = 0;         ///< Biased as in binary32, 1..254.
  int64_t significand = 0;  ///< In [2^23, 2^24).
};

/// Takes a binary32 pattern apart; subnormals count as zero (section 1).
Number decode_binary32(uint32_t bits);

/// ±magnitude · 2^power as a Number; magnitude below 2^24, the result within binary32's normal
/// range.
Number normalise(bool negative, uint32_t magnitude, int power);

/// floor(value / 2^n) for any n >= 0.
constexpr int64_t floor_shift(int64_t value, int n) { return value >> std::min(n, 63); }
constexpr Int128 floor_shift(Int128 value, int n) { return value >> std::min(n, 127); }

/// A positive number as so many significant bits: top · 2^power, truncated.
struct TopBits {
  uint64_t top;
  int power;
};

constexpr TopBits top_bits(uint64_t magnitude, int bits) {
  const int power = static_cast<int>(std::bit_width(magnitude)) - bits;
  return {power >= 0 ? magnitude >> power : magnitude << -power, power};
}

/// value · 2^n, floor where n < 0, saturated to ±limit.
constexpr int64_t scale_saturating(Int128 value, int n, int64_t limit) {
  if (value == 0) return 0;
  const bool overflows = n > 0 && (n > 63 || value > limit || value < -limit);
  if (overflows) return value < 0 ? -limit : limit;
  const Int128 scaled = n > 0 ? value * (Int128{1} << n) : floor_shift(value, -n);
  return static_cast<int64_t>(std::clamp<Int128>(scaled, -limit, limit));
}

/// floor(numerator / denominator), denominator > 0.
constexpr int64_t floor_divide(int64_t numerator, int64_t denominator) {
  const int64_t quotient = numerator / denominator;
  return quotient - (numerator % denominator < 0 ? 1 : 0);
}

/// Section 1.1: q̄ of an element in a row whose largest exponent is `top`.
int32_t query_integer(const Number& element, int top);

/// Section 1.2: k̄ of an element in a list whose largest key exponent is `top`.
int32_t key_integer(const Number& element, int top);

/// Section 1.3: v̄ of an element in a list whose largest value exponent is
/// `top`.
int32_t value_integer(const Number& element, int top);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_NUMBER_HPP_
