// Sizes in whole units.
#pragma once

#include <cstdint>

#include "nkv_abi.h"

namespace nearkv {

/// The least multiple of `unit` that holds `bytes`.
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Room for a part of a command's data, each of which starts at a burst.
[[nodiscard]] constexpr std::uint64_t whole_bursts(std::uint64_t bytes) {
  return round_up(bytes, NKV_BURST_BYTES);
}

}  // namespace nearkv
