// Where in DRAM a line lies.
#pragma once

#include <cstdint>

#include "fabric/dram/timing.hpp"

namespace nearkv::dram {

inline constexpr std::uint64_t kLineBytes = 64;

struct Place {
  unsigned channel;
  unsigned bank;  ///< Of the channel, numbered as Timing has it.
  std::uint64_t row;
  unsigned line;  ///< Of the row.

  friend bool operator==(const Place&, const Place&) = default;
};

/// Address bits from the lowest: channel, bank group, line, bank, row. Bits of the row are folded
/// into channel, group and bank, so that lines which lie a power of two apart do not share a bank.
Place place_of(const Timing& timing, std::uint64_t address);

}  // namespace nearkv::dram
