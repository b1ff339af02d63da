// The per-channel quantiser of a key page (emulator/model/ARITHMETIC.md section 2.1).
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "nkv_abi.h"

namespace nearkv::codec {

/// Codes count cells from this many times the base.
inline constexpr int kBaseSteps = NKV_CODE_BASE_STEP;

/// k_step_exponent of a page without a channel that has a step of its own.
inline constexpr int kNoStepExponent = -127;

/// A channel's quantiser. One step is mantissa * 2^exponent; a key v lies in cell
/// floor(v / step) = kBaseSteps * base + code.
struct ChannelStep {
  std::int8_t base = 0;
  std::uint8_t mantissa = 8;  ///< 8..15.
  std::int16_t exponent = 0;

  /// Width of a cell.
  [[nodiscard]] double size() const { return std::ldexp(mantissa, exponent); }

  friend bool operator==(const ChannelStep&, const ChannelStep&) = default;
};

/// Finds the smallest step that holds [low, high] of each channel, all finite, and returns the
/// page's k_step_exponent. Channels without a step of their own, or with one too small to express,
/// have the smallest that the digest can express.
std::int16_t smallest_steps(std::span<const float> low, std::span<const float> high,
                            std::span<ChannelStep> steps);

/// One entry of the page array K_DIGEST.
[[nodiscard]] constexpr std::uint16_t pack_step(const ChannelStep& step, int k_step_exponent) {
  const int delta = k_step_exponent - step.exponent;
  return static_cast<std::uint16_t>(static_cast<std::uint8_t>(step.base) |
                                    ((step.mantissa - 8) << 8) | (delta << 11));
}

[[nodiscard]] constexpr ChannelStep unpack_step(std::uint16_t entry, int k_step_exponent) {
  return {static_cast<std::int8_t>(entry & 0xFF), static_cast<std::uint8_t>(8 + ((entry >> 8) & 7)),
          static_cast<std::int16_t>(k_step_exponent - (entry >> 11))};
}

}  // namespace nearkv::codec
