// What nkv_command_check must say of a command: the contract's own checkers, this build's limits
// and the window, in this order.
#pragma once

#include <array>
#include <cstdint>

#include "nkv_abi.h"
#include "verdict.hpp"

namespace nearkv::rtl_test {

/// A command as it lies in its ring.
using Bytes = std::array<std::uint8_t, sizeof(nkv_append_command)>;

// This build's limits, as its LIMITS registers have them.
inline constexpr unsigned kChannels = 128;
inline constexpr unsigned kRows = 8;

/// Of rows that begin `stride` bytes apart, of which there is at least one.
inline std::uint64_t span_bytes(std::uint64_t rows, std::uint64_t stride, std::uint64_t row_bytes) {
  return (rows - 1) * stride + row_bytes;
}

model::Verdict expected_verdict(const Bytes& bytes, std::uint64_t window_bytes);

}  // namespace nearkv::rtl_test
