#include "fabric/dram/place.hpp"

#include <bit>

namespace nearkv::dram {
namespace {

/// Takes the lowest part, of `count` values, a power of two.
unsigned take(std::uint64_t* number, unsigned count) {
  const auto part = static_cast<unsigned>(*number % count);
  *number /= count;
  return part;
}

}  // namespace

Place place_of(const Timing& timing, std::uint64_t address) {
  std::uint64_t rest = address / kLineBytes;
  const unsigned channel = take(&rest, timing.channels);
  const unsigned group = take(&rest, timing.groups);
  const unsigned line = take(&rest, timing.lines);
  const unsigned bank = take(&rest, timing.banks);
  const std::uint64_t row = rest;
  std::uint64_t fold = row;
  const unsigned hashed_bank = bank ^ take(&fold, timing.banks);
  const unsigned hashed_group = group ^ take(&fold, timing.groups);
  const unsigned parity = static_cast<unsigned>(std::popcount(row)) % timing.channels;
  return {.channel = channel ^ parity,
          .bank = hashed_bank * timing.groups + hashed_group,
          .row = row,
          .line = line};
}

}  // namespace nearkv::dram
