// Elements as ARITHMETIC.md section 1 takes them apart, and shifts that no width surprises.
#ifndef NEARKV_HLS_NUMBER_HPP_
#define NEARKV_HLS_NUMBER_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

/// ±significand · 2^(exponent − 150); zero, and what is not finite, has significand and exponent 0.
struct Number {
  bool negative;
  ap_uint<8> exponent;
  ap_uint<24> significand;
};

inline Number decode_binary32(ap_uint<32> bits) {
  const ap_uint<8> exponent = bits.range(30, 23);
  const bool is_normal = exponent != 0 && exponent != 255;
  Number number;
  number.negative = bits[31] == 1;
  number.exponent = is_normal ? exponent : ap_uint<8>(0);
  number.significand = is_normal ? ap_uint<24>(bits.range(22, 0) | 1 << 23) : ap_uint<24>(0);
  return number;
}

inline Number decode_bf16(ap_uint<16> bits) { return decode_binary32(ap_uint<32>(bits) << 16); }

/// ±(magnitude >> distance), a distance below 0 counting as 0.
template <int Bits>
ap_int<Bits + 1> truncated(bool negative, ap_uint<Bits> magnitude, int distance) {
  const int shift = distance < 0 ? 0 : distance >= Bits ? Bits - 1 : distance;
  const ap_uint<Bits> kept =
      distance >= Bits ? ap_uint<Bits>(0) : ap_uint<Bits>(magnitude >> shift);
  return negative ? ap_int<Bits + 1>(-kept) : ap_int<Bits + 1>(kept);
}

inline QueryInteger query_integer(const Number& element, int top) {
  return truncated<24>(element.negative, element.significand, 1 + top - element.exponent.to_int());
}

inline KeyInteger key_integer(const Number& element, int top) {
  return truncated<26>(element.negative, ap_uint<26>(element.significand) << 2,
                       top - element.exponent.to_int());
}

inline ValueInteger value_integer(const Number& element, int top) {
  return truncated<24>(element.negative, element.significand, top - element.exponent.to_int());
}

/// floor(value / 2^n), n >= 0.
inline std::int64_t floor_shift(std::int64_t value, int n) { return value >> (n < 63 ? n : 63); }

/// Bits of a number without leading zeros; 0 for 0.
template <int Bits>
int bit_width(const ap_uint<Bits>& number) {
#pragma HLS inline
  int width = 0;
count_bits:
  for (int bit = 0; bit < Bits; ++bit) {
#pragma HLS unroll  // A priority encoder.
    if (number[bit] == 1) width = bit + 1;
  }
  return width;
}

template <typename T>
T least_of(T a, T b) {
  return a < b ? a : b;
}

template <typename T>
T largest_of(T a, T b) {
  return a < b ? b : a;
}

template <typename T>
T clamped(T value, T limit) {
  return value > limit ? limit : value < -limit ? T(-limit) : value;
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_NUMBER_HPP_
