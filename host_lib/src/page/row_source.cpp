#include "page/row_source.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "page/elements.hpp"

namespace nearkv {
namespace {

float element(const std::uint8_t* row, std::size_t channel, std::uint8_t dtype) {
  std::uint16_t bits = 0;
  float value = 0;
  switch (dtype) {
    case NKV_DTYPE_FP32:
      std::memcpy(&value, row + 4 * channel, sizeof(value));
      return value;
    case NKV_DTYPE_BF16:
      std::memcpy(&bits, row + 2 * channel, sizeof(bits));
      return from_bf16(bits);
    case NKV_DTYPE_FP16:
      std::memcpy(&bits, row + 2 * channel, sizeof(bits));
      return from_fp16(bits);
    case NKV_DTYPE_FP8_E4M3:
      return from_e4m3(row[channel]);
    case NKV_DTYPE_FP8_E5M2:
      return from_e5m2(row[channel]);
    default:
      return static_cast<float>(std::bit_cast<std::int8_t>(row[channel]));
  }
}

}  // namespace

bool RowSource::decode(std::size_t token, float* out) const {
  const std::uint8_t* const source = row(token);
  if (is_delta4()) {
    const std::uint8_t* const nibbles = source + dim;
    for (std::size_t channel = 0; channel < dim; ++channel) {
      const unsigned nibble = (nibbles[channel / 2] >> (channel % 2 * 4)) & 0xFU;
      const std::uint32_t exponent = nibble == 0 ? 0 : exponents[channel] + nibble;
      const std::uint32_t sign_mantissa = nibble == 0 ? 0 : source[channel];
      out[channel] = std::bit_cast<float>((sign_mantissa >> 7 << 31) | (exponent << 23) |
                                          ((sign_mantissa & 0x7FU) << 16));
    }
    return true;
  }
  bool finite = true;
  for (std::size_t channel = 0; channel < dim; ++channel) {
    const float value = element(source, channel, dtype);
    finite &= std::isfinite(value);
    out[channel] = std::isfinite(value) ? flush_subnormal(value) : 0.0F;
  }
  return finite;
}

}  // namespace nearkv
