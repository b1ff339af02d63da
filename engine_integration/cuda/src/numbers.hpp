// Elements as kernels compute with them, and words that move at once.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "block.hpp"
#include "nkv_abi.h"

namespace nearkv::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2 = 0.6931471805599453F;

/// The same bits as another type.
template <typename To, typename From>
NKV_KERNEL To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

NKV_KERNEL float minus_infinity() { return bits_as<float>(0xFF800000U); }
NKV_KERNEL float not_a_number() { return bits_as<float>(0x7FC00000U); }

NKV_KERNEL bool is_finite(float value) {
  return (bits_as<std::uint32_t>(value) & 0x7F800000U) != 0x7F800000U;
}

NKV_KERNEL float from_bf16(std::uint32_t bits) { return bits_as<float>(bits << 16); }

/// IEEE binary16.
NKV_KERNEL float from_fp16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1F) return bits_as<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) return bits_as<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8F;  // 2^-24.
  return sign != 0 ? -magnitude : magnitude;
}

/// Elements that a thread takes at once.
inline constexpr unsigned kChunk = 8;

/// Eight elements of BF16, FP16 or FP32, which lie at a multiple of 16 bytes.
NKV_KERNEL void load_chunk(const std::byte* place, std::uint32_t dtype, float* out) {
  const Words4 first = *reinterpret_cast<const Words4*>(place);
  if (dtype == NKV_DTYPE_FP32) {
    const Words4 second = *reinterpret_cast<const Words4*>(place + sizeof(first));
    for (unsigned i = 0; i < 4; ++i) {
      out[i] = bits_as<float>(first.word[i]);
      out[i + 4] = bits_as<float>(second.word[i]);
    }
    return;
  }
  const bool is_bf16 = dtype == NKV_DTYPE_BF16;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint32_t low = first.word[i] & 0xFFFFU;
    const std::uint32_t high = first.word[i] >> 16;
    out[2 * i] = is_bf16 ? from_bf16(low) : from_fp16(low);
    out[2 * i + 1] = is_bf16 ? from_bf16(high) : from_fp16(high);
  }
}

}  // namespace nearkv::cuda
