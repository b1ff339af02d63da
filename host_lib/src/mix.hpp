// The hash of samples and of sign sets (emulator/model/ARITHMETIC.md, sections 8 and 11.1).
#pragma once

#include <cstdint>

namespace nearkv {

[[nodiscard]] constexpr std::uint32_t mix(std::uint32_t value) {
  value = (value ^ value >> 16) * 0x21F0AAADU;
  value = (value ^ value >> 15) * 0x735A2D97U;
  return value ^ value >> 15;
}

}  // namespace nearkv
