// The quantiser of a key page's channels (emulator/model/ARITHMETIC.md section 2.1).
#pragma once

#include "elements.hpp"

namespace nearkv::cuda {

/// Steps m * 2^exponent, m from 8 to 15, have ascending numbers: the leading bits of a binary64.
inline constexpr unsigned kStepFractionShift = 52 - 3;
inline constexpr std::int32_t kStepExponentBias = 1023 + 3;
inline constexpr std::uint32_t kNoStep = 0;  ///< Of a channel of zeros.

/// A step in the form that cells are counted with.
struct CellStep {
  std::int32_t exponent;
  std::uint32_t mantissa;
  std::uint32_t inverse;  ///< Just above 2^20 / mantissa.
};

NKV_KERNEL CellStep cell_step(std::uint32_t number) {
  const std::uint32_t mantissa = 8 + (number & 7U);
  return {static_cast<std::int32_t>(number >> 3) - kStepExponentBias, mantissa,
          (1U << 20) / mantissa + 1};
}

/// floor(value / step) of a usable value within 1,024 steps of zero.
NKV_KERNEL std::int32_t cell_of(float value, const CellStep& step) {
  constexpr std::uint32_t kOffset = 1024;
  const auto bits = bits_as<std::uint32_t>(value);
  const auto exponent = static_cast<std::int32_t>(bits >> 23 & 0xFFU);
  if (exponent == 0) return 0;
  const auto significand = static_cast<std::int32_t>((bits & 0x7FFFFFU) | 0x800000U);
  const std::int32_t shift = step.exponent + 150 - exponent;
  const std::int32_t whole =
      ((bits >> 31) != 0 ? -significand : significand) >> (shift < 31 ? shift : 31);
  // Below 2^15, where the product with the inverse has the quotient's whole part.
  const std::uint32_t above_zero = static_cast<std::uint32_t>(whole) + kOffset * step.mantissa;
  return static_cast<std::int32_t>((above_zero * step.inverse >> 20) - kOffset);
}

/// The digest's base of a channel whose least value it is.
NKV_KERNEL std::int32_t base_of(float low, const CellStep& step) {
  static_assert(NKV_CODE_BASE_STEP == 4);
  return cell_of(low, step) >> 2;
}

/// The number of the smallest step whose 256 cells hold a channel's values. A step must exceed
/// (high - low) / 256 and hold low within the base's reach of 512 steps; neighbouring steps differ
/// by more than the base's rounding takes, so it is the first candidate or the one after it.
NKV_KERNEL std::uint32_t smallest_step(float low, float high) {
  if (low == 0 && high == 0) return kNoStep;
  const double spread = (static_cast<double>(high) - static_cast<double>(low)) / 256;
  const double reach = fabs(static_cast<double>(low)) / 512;
  constexpr std::uint64_t kBelowOne = (std::uint64_t{1} << kStepFractionShift) - 1;
  const auto bits = bits_as<std::uint64_t>(spread < reach ? reach : spread);
  const auto first = static_cast<std::uint32_t>((bits + kBelowOne) >> kStepFractionShift);
  const CellStep step = cell_step(first);
  const std::int32_t base = base_of(low, step);
  // No base is below -128, for reach sees to it; but it is 128 where low is 512 steps.
  const bool fits = cell_of(high, step) - NKV_CODE_BASE_STEP * base <= 255 && base <= 127;
  return fits ? first : first + 1;
}

}  // namespace nearkv::cuda
