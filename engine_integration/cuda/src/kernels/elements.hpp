// Elements of rows as pages count them (emulator/model/ARITHMETIC.md section 1).
#pragma once

#include "numbers.hpp"

namespace nearkv::cuda {

/// OCP FP8 E4M3FN.
NKV_KERNEL float from_e4m3(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24;
  const std::uint32_t exponent = bits >> 3 & 0xFU;
  const std::uint32_t mantissa = bits & 7U;
  if ((bits & 0x7FU) == 0x7FU) return not_a_number();
  if (exponent != 0) return bits_as<float>(sign | (exponent + 120) << 23 | mantissa << 20);
  const float magnitude = static_cast<float>(mantissa) * 0.001953125F;  // 2^-9.
  return sign != 0 ? -magnitude : magnitude;
}

/// An element of a type that pages hold, by its pattern.
NKV_KERNEL float decode_element(std::uint32_t bits, std::uint32_t dtype) {
  switch (dtype) {
    case NKV_DTYPE_BF16:
      return from_bf16(bits);
    case NKV_DTYPE_FP16:
      return from_fp16(bits);
    case NKV_DTYPE_FP8_E4M3:
      return from_e4m3(bits);
    case NKV_DTYPE_FP8_E5M2:
      return from_fp16(bits << 8);
    default:
      return static_cast<float>(static_cast<std::int32_t>(bits) - (bits < 128 ? 0 : 256));
  }
}

[[nodiscard]] NKV_KERNEL std::uint32_t biased_exponent(float value) {
  return bits_as<std::uint32_t>(value) >> 23 & 0xFFU;
}

/// Zero in place of what is subnormal or not finite.
[[nodiscard]] NKV_KERNEL float usable(float value) {
  const std::uint32_t exponent = biased_exponent(value);
  return exponent == 0 || exponent == 0xFF ? 0.0F : value;
}

NKV_KERNEL bool has_byte_elements(std::uint32_t dtype) {
  return dtype != NKV_DTYPE_BF16 && dtype != NKV_DTYPE_FP16;
}

/// Element `channel` of a row.
NKV_KERNEL float load_element(const std::byte* row, std::uint32_t channel, std::uint32_t dtype) {
  if (has_byte_elements(dtype)) {
    return decode_element(static_cast<std::uint32_t>(row[channel]), dtype);
  }
  return decode_element(reinterpret_cast<const std::uint16_t*>(row)[channel], dtype);
}

/// The eight elements of a row from `channel` on, a multiple of eight, made usable.
NKV_KERNEL void load_usable(const std::byte* row, std::uint32_t channel, std::uint32_t dtype,
                            float* out) {
  if (has_byte_elements(dtype)) {
    const auto bytes = *reinterpret_cast<const std::uint64_t*>(row + channel);
    for (unsigned i = 0; i < kChunk; ++i) {
      const auto bits = static_cast<std::uint32_t>(bytes >> (8 * i)) & 0xFFU;
      out[i] = usable(decode_element(bits, dtype));
    }
    return;
  }
  const Words4 words = *reinterpret_cast<const Words4*>(row + std::size_t{channel} * 2);
  for (unsigned i = 0; i < kChunk; ++i) {
    out[i] = usable(decode_element(words.word[i / 2] >> (i % 2 * 16) & 0xFFFFU, dtype));
  }
}

}  // namespace nearkv::cuda
