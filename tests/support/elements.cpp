#include "support/elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "nkv_abi.h"

namespace nearkv::test {

namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinities;
};

Format format_of(uint8_t dtype) {
  switch (dtype) {
    case NKV_DTYPE_BF16:
      return {8, 7, true};
    case NKV_DTYPE_FP16:
      return {5, 10, true};
    case NKV_DTYPE_FP8_E4M3:
      return {4, 3, false};
    case NKV_DTYPE_FP8_E5M2:
      return {5, 2, true};
    default:
      return {8, 23, true};
  }
}

double decode_float(const Format& format, uint32_t pattern) {
  const uint32_t fraction = pattern & ((1u << format.fraction_bits) - 1);
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t exponent = pattern >> format.fraction_bits & top;
  const bool negative = (pattern >> (format.exponent_bits + format.fraction_bits) & 1) != 0;
  const double sign = negative ? -1.0 : 1.0;
  if (exponent == top) {
    if (format.has_infinities && fraction == 0) {
      return sign * std::numeric_limits<double>::infinity();
    }
    const bool is_nan = format.has_infinities || fraction == (1u << format.fraction_bits) - 1;
    if (is_nan) return std::numeric_limits<double>::quiet_NaN();
  }
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double significand =
      fraction + (exponent == 0 ? 0.0 : std::ldexp(1.0, format.fraction_bits));
  const int power = std::max(static_cast<int>(exponent), 1) - bias - format.fraction_bits;
  return sign * std::ldexp(significand, power);
}

// Patterns of one sign are ordered as their values are, so the nearest one is found by bisection.
uint32_t encode_float(uint8_t dtype, double value) {
  const Format format = format_of(dtype);
  const uint32_t sign =
      std::signbit(value) ? 1u << (format.exponent_bits + format.fraction_bits) : 0;
  const double magnitude = std::abs(value);
  uint32_t low = 0;
  uint32_t high = (1u << (format.exponent_bits + format.fraction_bits)) - 1;
  while (low + 1 < high) {
    const uint32_t middle = low + (high - low) / 2;
    const double decoded = decode(dtype, middle);
    const bool is_above = !std::isfinite(decoded) || decoded > magnitude;
    (is_above ? high : low) = middle;
  }
  const double below = magnitude - decode(dtype, low);
  const double above = decode(dtype, high) - magnitude;
  const bool takes_high =
      std::isfinite(above) && (above < below || (above == below && (high & 1) == 0));
  return sign | (takes_high ? high : low);
}

}  // namespace

double decode(uint8_t dtype, uint32_t pattern) {
  if (dtype == NKV_DTYPE_INT8) return static_cast<int8_t>(pattern & 0xff);
  return decode_float(format_of(dtype), pattern);
}

uint32_t encode(uint8_t dtype, double value) {
  if (dtype == NKV_DTYPE_FP32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (dtype == NKV_DTYPE_BF16) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  if (dtype == NKV_DTYPE_INT8) {
    const double rounded = std::nearbyint(std::clamp(value, -128.0, 127.0));
    return static_cast<uint8_t>(static_cast<int8_t>(rounded));
  }
  return encode_float(dtype, value);
}

std::vector<std::byte> to_bytes(uint8_t dtype, std::span<const uint32_t> patterns) {
  const size_t element_bytes = nkv_element_bytes(dtype);
  std::vector<std::byte> bytes(patterns.size() * element_bytes);
  for (size_t i = 0; i < patterns.size(); ++i) {
    std::memcpy(bytes.data() + i * element_bytes, &patterns[i], element_bytes);
  }
  return bytes;
}

std::vector<uint32_t> from_bytes(uint8_t dtype, std::span<const std::byte> bytes) {
  const size_t element_bytes = nkv_element_bytes(dtype);
  std::vector<uint32_t> patterns(bytes.size() / element_bytes, 0);
  for (size_t i = 0; i < patterns.size(); ++i) {
    std::memcpy(&patterns[i], bytes.subspan(i * element_bytes).data(), element_bytes);
  }
  return patterns;
}

}  // namespace nearkv::test
