#include "rounding.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace nearkv::model {

float round_to_binary32(bool negative, uint64_t magnitude, int power) {
  if (magnitude == 0) return 0.0f;
  const int excess = static_cast<int>(std::bit_width(magnitude)) - 24;
  uint64_t significand = magnitude;
  if (excess > 0) {
    const uint64_t rest = magnitude & ((uint64_t{1} << excess) - 1);
    const uint64_t half = uint64_t{1} << (excess - 1);
    significand = magnitude >> excess;
    if (rest > half || (rest == half && (significand & 1) != 0)) ++significand;
    power += excess;
  }
  // Exact: at most 24 bits (or 2^24 after a carry), and binary64 has room for any power here.
  const double value = std::ldexp(static_cast<double>(significand), power);
  if (value < static_cast<double>(std::numeric_limits<float>::min())) return 0.0f;
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float rounded =
      value > static_cast<double>(kLargest) ? kLargest : static_cast<float>(value);
  return negative ? -rounded : rounded;
}

uint16_t round_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kInfinity = 0x7f800000u;
  const uint32_t rounded = magnitude + 0x7fffu + (magnitude >> 16 & 1);
  const uint32_t kept = magnitude < kInfinity && rounded >= kInfinity ? kInfinity - 1 : rounded;
  return static_cast<uint16_t>((sign | kept) >> 16);
}

float nearest_binary32(double value) {
  // Half a unit in the last place above the largest number: from here on an infinity is nearest.
  const double limit = std::ldexp(1.0 - std::ldexp(1.0, -25), 128);
  if (std::abs(value) >= limit) {
    return std::copysign(std::numeric_limits<float>::infinity(), value < 0 ? -1.0f : 1.0f);
  }
  return static_cast<float>(value);
}

}  // namespace nearkv::model
