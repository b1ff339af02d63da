// A client's memory, as far as its jobs may name it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/wire/shared_memory.hpp"
#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Region 0 is the window's data area, the others are what the client registered. Thread safety:
/// one thread at a time.
class Regions {
 public:
  /// `window_data` must outlive this; `most_bytes` may be registered besides.
  Regions(std::span<std::byte> window_data, std::uint64_t most_bytes);

  /// Maps a part of a memfd. kBadArgument unless it is sealed against shrinking and holds the part;
  /// kQuota beyond most_bytes, kQueueFull beyond NKV_DAEMON_MAX_REGIONS; kOutOfMemory.
  Status add(int fd, std::uint64_t offset, std::uint64_t bytes, std::uint32_t* region);

  /// kNotFound if the client has not registered it.
  Status remove(std::uint32_t region);

  /// The memory of a segment; nothing if it does not lie within a region.
  [[nodiscard]] std::optional<std::span<std::byte>> find(const nkv_daemon_segment& segment) const;

  [[nodiscard]] std::uint32_t size() const;

 private:
  std::uint64_t free_bytes_;
  std::array<std::span<std::byte>, NKV_DAEMON_MAX_REGIONS> regions_;
  std::array<SharedMemory, NKV_DAEMON_MAX_REGIONS> memory_;
};

}  // namespace nearkv
