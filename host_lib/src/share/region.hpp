// Where everything stands in a shared region.
#pragma once

#include <cstdint>

#include "nearkv/status.hpp"
#include "nkv_abi.h"
#include "share/shared_memory.hpp"

namespace nearkv {

/// A log has two areas, so that an incarnation can write while its predecessor's log is still read.
inline constexpr std::uint8_t kLogAreas = 2;

struct RegionShape {
  std::uint16_t hosts = 2;
  std::uint32_t extents = 0;
  std::uint32_t extent_bytes = 0;  ///< A power of two.
  std::uint16_t leases = 16;
  std::uint16_t messages = 8;
};

/// The layout of one region: header, then for each host its log areas, acks, leases and mailboxes,
/// then the extents. All that stands under a host is written by that host alone. Offsets in bytes.
class Region {
 public:
  /// Writes the header. kBadArgument if the shape is senseless or does not fit the memory.
  [[nodiscard]] static Status create(SharedMemory& memory, const RegionShape& shape,
                                     Region* region);

  /// kBadPool if the memory holds no region.
  [[nodiscard]] static Status open(SharedMemory& memory, Region* region);

  /// Bytes that a region of this shape takes.
  [[nodiscard]] static std::uint64_t bytes_of(const RegionShape& shape);

  [[nodiscard]] std::uint16_t hosts() const { return header_.hosts; }
  [[nodiscard]] std::uint32_t extents() const { return header_.extents; }
  [[nodiscard]] std::uint32_t extent_bytes() const { return header_.extent_bytes; }
  [[nodiscard]] std::uint32_t log_entries() const { return header_.log_entries; }
  [[nodiscard]] std::uint16_t leases() const { return header_.leases; }
  [[nodiscard]] std::uint16_t messages() const { return header_.messages; }
  [[nodiscard]] std::uint64_t total_bytes() const { return header_.total_bytes; }

  /// Extents that `bytes` take; an empty object takes one.
  [[nodiscard]] std::uint32_t extents_for(std::uint32_t bytes) const;
  /// Who owns an extent that has never changed hands.
  [[nodiscard]] std::uint16_t first_owner(std::uint32_t extent) const;

  [[nodiscard]] std::uint64_t line_at(std::uint16_t host, std::uint8_t area,
                                      std::uint64_t heartbeat) const;
  [[nodiscard]] std::uint64_t entry_at(std::uint16_t host, std::uint8_t area,
                                       std::uint64_t number) const;
  [[nodiscard]] std::uint64_t ack_at(std::uint16_t reader, std::uint16_t owner) const;
  [[nodiscard]] std::uint64_t lease_at(std::uint16_t host, std::uint16_t index) const;
  [[nodiscard]] std::uint64_t message_at(std::uint16_t from, std::uint16_t to,
                                         std::uint64_t number) const;
  [[nodiscard]] std::uint64_t extent_at(std::uint32_t extent) const;

 private:
  [[nodiscard]] std::uint64_t host_bursts() const;
  [[nodiscard]] std::uint64_t burst_of(std::uint16_t host, std::uint64_t burst) const;

  nkv_share_header header_{};
};

}  // namespace nearkv
