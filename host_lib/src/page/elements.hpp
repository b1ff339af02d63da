// Scalar conversions between row elements and binary32, as emulator/model/ARITHMETIC.md section 1
// takes them: subnormal binary32 numbers count as zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nearkv {

inline constexpr std::uint32_t kExponentMask = 0x7F800000U;

[[nodiscard]] inline int biased_exponent(float value) {
  return static_cast<int>((std::bit_cast<std::uint32_t>(value) & kExponentMask) >> 23);
}

[[nodiscard]] inline float flush_subnormal(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kExponentMask) == 0 ? std::copysign(0.0F, value)
                                                                    : value;
}

[[nodiscard]] inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Rounds to nearest even; NaN stays NaN, and a finite number finite.
[[nodiscard]] inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const auto rounded = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  const bool overflows = (rounded & 0x7FFFU) == 0x7F80U && std::isfinite(value);
  return overflows ? static_cast<std::uint16_t>(rounded - 1) : rounded;
}

/// IEEE binary16.
[[nodiscard]] inline float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | kExponentMask | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -magnitude : magnitude;
}

/// Rounds to nearest even; what is too large becomes an infinity, and NaN stays NaN.
[[nodiscard]] inline std::uint16_t to_fp16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000U);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7E00U;
  if (magnitude >= 65520.0F) return sign | 0x7C00U;
  const int exponent = std::max(biased_exponent(magnitude) - 127, -14);
  const float units =
      std::nearbyint(std::ldexp(magnitude, 10 - exponent));  // 1024 and more: normal.
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + static_cast<int>(units)));
}

/// OCP FP8 E4M3FN: bias 7, no infinities, NaN = S.1111.111.
[[nodiscard]] inline float from_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xF;
  const int mantissa = bits & 0x7;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((bits & 0x7F) == 0x7F) magnitude = std::bit_cast<float>(0x7FC00000U);
  return std::copysign(magnitude, (bits & 0x80) != 0 ? -1.0F : 1.0F);
}

/// OCP FP8 E5M2: the upper byte of a binary16.
[[nodiscard]] inline float from_e5m2(std::uint8_t bits) {
  return from_fp16(static_cast<std::uint16_t>(bits << 8));
}

}  // namespace nearkv
