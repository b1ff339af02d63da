// One element, one code: the arithmetic of INT8, INT4 and FP8 (FORMATS.md).
//
// Floating point is binary32 and binary64, rounded to nearest even; nothing here needs subnormal
// numbers, which Vitis flushes to zero.
#ifndef NEARKV_HLS_QUANT_NUMBER_HPP_
#define NEARKV_HLS_QUANT_NUMBER_HPP_

#include "kernels/number.hpp"
#include "kernels/types.hpp"

namespace nearkv::kernels {

using Bf16 = ap_uint<16>;

constexpr int kBf16Limit = (127 + 126) << 7;  ///< INT8 and INT4 take magnitudes below this pattern.
constexpr int kBf16Infinity = 0x7f80;
constexpr int kFp8ScaleBias = 135;

union Binary32 {
  std::uint32_t bits;
  float value;
};

inline float float_of(std::uint32_t bits) {
  Binary32 number;
  number.bits = bits;
  return number.value;
}

inline std::uint32_t bits_of(float value) {
  Binary32 number;
  number.value = value;
  return number.bits;
}

/// Subnormals become +0.
inline Bf16 flushed(Bf16 bits) { return ap_uint<8>(bits.range(14, 7)) == 0 ? Bf16(0) : bits; }

inline float float_of_bf16(Bf16 bits) { return float_of(bits.to_uint() << 16); }

/// Patterns in the order of their values, as two's complement numbers. Its own inverse.
inline ap_int<16> ordered(Bf16 bits) {
  return ap_int<16>(bits[15] == 1 ? Bf16(bits ^ 0x7fff) : bits);
}

/// What a group's codes are made with. Of FP8 `scale` is the byte x + 135.
struct GroupParameters {
  Bf16 zero;
  Bf16 scale;
  ap_uint<1> lift;  ///< Whether element, zero and scale count 2^64-fold, out of subnormals' reach.
  float zero_value;
  float reciprocal;
};

constexpr int kLiftBits = 64 << 7;

inline Bf16 lifted(Bf16 bits, ap_uint<1> lift) {
  return lift == 1 && ap_uint<15>(bits) != 0 ? Bf16(bits + kLiftBits) : bits;
}

inline Bf16 integer_scale(Bf16 low, Bf16 high, int max_code) {
  const double span =
      static_cast<double>(float_of_bf16(high)) - static_cast<double>(float_of_bf16(low));
  if (span == 0) return 0;
  const double exact = span / max_code;
  std::uint32_t bits = bits_of(static_cast<float>(exact));
  if (static_cast<double>(float_of(bits)) < exact) ++bits;
  const std::uint32_t raised = (bits + 0xffff) >> 16;
  return raised < 0x80 ? 0x80 : raised;
}

inline Bf16 fp8_scale(Bf16 low, Bf16 high) {
  constexpr int kGreatestMantissa = 0x60;  // Of 448 = 1.75 · 2^8.
  const ap_uint<15> greatest = largest_of(ap_uint<15>(low), ap_uint<15>(high));
  if (greatest == 0) return 0;
  const int exponent = greatest.range(14, 7).to_int();
  const int carry = greatest.range(6, 0).to_int() > kGreatestMantissa ? 1 : 0;
  return exponent - 127 - 8 + carry + kFp8ScaleBias;
}

inline GroupParameters group_parameters(Bf16 low, Bf16 high, std::uint8_t codec) {
  GroupParameters group;
  const bool is_fp8 = codec == NKV_CODEC_FP8;
  const int max_code = codec == NKV_CODEC_INT4 ? 15 : 255;
  group.zero = is_fp8 ? Bf16(0) : low;
  group.scale = is_fp8 ? fp8_scale(low, high) : integer_scale(low, high, max_code);
  const ap_uint<15> greatest = largest_of(ap_uint<15>(low), ap_uint<15>(high));
  group.lift = greatest.range(14, 7).to_int() < 127 ? 1 : 0;
  group.zero_value = float_of_bf16(lifted(group.zero, group.lift));
  const bool divides = !is_fp8 && group.scale != 0;
  group.reciprocal = divides ? 1.0F / float_of_bf16(lifted(group.scale, group.lift)) : 0.0F;
  return group;
}

inline ap_uint<8> integer_code(Bf16 element, const GroupParameters& group, int max_code) {
#pragma HLS inline
  const float value = float_of_bf16(lifted(flushed(element), group.lift));
  const float raised = (value - group.zero_value) * group.reciprocal + 0.5F;
  return least_of(static_cast<int>(raised), max_code);
}

/// An element as E4M3 against 2^x, to nearest even.
inline ap_uint<8> fp8_code(Bf16 element, Bf16 scale) {
#pragma HLS inline
  const int exponent = element.range(14, 7).to_int();
  const int mantissa = element.range(6, 0).to_int();
  const int field = exponent - 127 - (scale.to_int() - kFp8ScaleBias) + 7;
  const int right = field >= 1 ? 4 : least_of(5 - field, 10);
  const int wide = field >= 1 ? (field << 7 | mantissa) : (128 | mantissa);
  const int magnitude = (wide + (1 << (right - 1)) - 1 + (wide >> right & 1)) >> right;
  ap_uint<8> code = exponent != 0 ? magnitude : 0;
  code[7] = element[15];
  return code;
}

/// zero + code · scale, rounded to bf16; a subnormal result is +0.
inline Bf16 integer_value(ap_uint<8> code, Bf16 zero, Bf16 scale) {
#pragma HLS inline
  const float product = static_cast<float>(code.to_int()) * float_of_bf16(flushed(scale));
  const std::uint32_t bits = bits_of(float_of_bf16(flushed(zero)) + product);
  return flushed(Bf16((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

/// code · 2^x; below 2^-126 zero, above the greatest finite number that.
inline Bf16 fp8_value(ap_uint<8> code, Bf16 scale) {
#pragma HLS inline
  const int field = code.range(6, 3).to_int();
  const ap_uint<4> significand = code.range(2, 0).to_int() | (field != 0 ? 8 : 0);
  const int zeros = 4 - bit_width(significand);
  const int exponent = 127 - 7 + largest_of(field, 1) - zeros + scale.to_int() - kFp8ScaleBias;
  const int mantissa = (significand.to_int() << zeros & 7) << 4;
  Bf16 value = 0;
  value[15] = code[7];
  if (significand != 0 && exponent >= 1) {
    value.range(14, 0) = least_of(exponent << 7 | mantissa, kBf16Infinity - 1);
  }
  return value;
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_QUANT_NUMBER_HPP_
