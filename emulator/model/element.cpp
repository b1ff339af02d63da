#include "element.hpp"

#include <algorithm>
#include <cstring>

#include "nkv_abi.h"

namespace nearkv::model {

namespace {

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// A small IEEE-like format: sign, exponent, fraction from the top. Its subnormals are normal
// binary32 numbers, so they keep their value.
Number decode_small_float(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
  const uint32_t hidden = exponent == 0 ? 0 : 1u << fraction_bits;
  return normalise(negative, hidden | fraction, std::max(exponent, 1) - bias - fraction_bits);
}

Number decode_ieee_small_float(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t all_ones = (1u << exponent_bits) - 1;
  if ((bits >> fraction_bits & all_ones) == all_ones) return {.finite = false};
  return decode_small_float(bits, exponent_bits, fraction_bits);
}

}  // namespace

Number decode_element(uint8_t dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case NKV_DTYPE_BF16:
      return decode_binary32(uint32_t{load<uint16_t>(bytes)} << 16);
    case NKV_DTYPE_FP16:
      return decode_ieee_small_float(load<uint16_t>(bytes), 5, 10);
    case NKV_DTYPE_FP8_E5M2:
      return decode_ieee_small_float(load<uint8_t>(bytes), 5, 2);
    case NKV_DTYPE_FP8_E4M3: {
      const uint8_t bits = load<uint8_t>(bytes);
      if ((bits & 0x7f) == 0x7f) return {.finite = false};
      return decode_small_float(bits, 4, 3);
    }
    case NKV_DTYPE_INT8: {
      const auto bits = load<uint8_t>(bytes);
      const bool is_negative = bits >= 0x80;
      return normalise(is_negative, is_negative ? 0x100U - bits : bits, 0);
    }
    default:
      return decode_binary32(load<uint32_t>(bytes));
  }
}

std::vector<Number> decode_elements(uint8_t dtype, std::span<const std::byte> bytes, size_t count) {
  const size_t element_bytes = nkv_element_bytes(dtype);
  std::vector<Number> elements(count);
  for (size_t i = 0; i < count; ++i) {
    elements[i] = decode_element(dtype, bytes.subspan(i * element_bytes, element_bytes));
  }
  return elements;
}

int largest_exponent(std::span<const Number> elements) {
  int largest = 0;
  for (const Number& element : elements) largest = std::max(largest, element.exponent);
  return largest;
}

}  // namespace nearkv::model
