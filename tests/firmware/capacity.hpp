// Dynamic capacity as a host and its fabric manager ask for it.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "card.hpp"

namespace nearkv::testing {

inline constexpr std::uint64_t kBlockBytes = NKV_CAPACITY_BLOCK_LEAST_BYTES;
inline constexpr std::uint64_t kRegionAt = Card::kMemoryBytes - Card::kDynamicBytes;

/// Blocks of the region.
struct Blocks {
  std::uint64_t first, count;
  std::uint64_t tag = 0;

  bool operator==(const Blocks&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Blocks& blocks) {
  return out << blocks.count << " from " << blocks.first << ", tag " << blocks.tag;
}

/// An extent in a payload, `at` bytes from its beginning.
inline Blocks extent_at(const Answer& answer, std::size_t at) {
  return {(answer.number(at, 8) - kRegionAt) / kBlockBytes, answer.number(at + 8, 8) / kBlockBytes,
          answer.number(at + 16, 8)};
}

/// What the host has.
inline std::vector<Blocks> extents(const Answer& answer) {
  std::vector<Blocks> found;
  for (std::size_t i = 0; i < answer.number(0, 4); ++i) {
    found.push_back(extent_at(answer, 16 + i * 40));
  }
  return found;
}
inline Payload all_extents(std::uint64_t first = 0) {
  return Payload().number(UINT32_MAX, 4).number(first, 4);
}

/// A host's list: what it accepts, or gives back.
inline Payload list_of(const std::vector<Blocks>& wanted, bool has_more = false) {
  Payload payload;
  payload.number(wanted.size(), 4).number(has_more ? 1 : 0, 4);
  for (const Blocks& blocks : wanted) {
    payload.number(kRegionAt + blocks.first * kBlockBytes, 8)
        .number(blocks.count * kBlockBytes, 8)
        .zeros(8);
  }
  return payload;
}

/// How a fabric manager chooses what it offers, and what it asks back.
enum Policy : std::uint8_t { kFree, kContiguous, kPrescriptive };
enum Removal : std::uint8_t { kByTag, kByExtent, kForced = 1 << 4 };

/// A fabric manager's request for `count` blocks, or for those of the list.
inline Payload request(std::uint64_t flags, std::uint64_t count, std::uint64_t tag = 0,
                       const std::vector<Blocks>& listed = {}) {
  Payload payload;
  payload.zeros(2).number(flags, 1).zeros(1).number(count * kBlockBytes, 8);
  payload.number(tag, 8).zeros(8).number(listed.size(), 4);
  for (const Blocks& blocks : listed) {
    payload.number(kRegionAt + blocks.first * kBlockBytes, 8)
        .number(blocks.count * kBlockBytes, 8)
        .zeros(24);
  }
  return payload;
}

}  // namespace nearkv::testing
