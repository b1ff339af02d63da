// Memory that a client and its daemon share, over all lives of the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/client/connection.hpp"
#include "daemon/client/range_allocator.hpp"

namespace nearkv {

/// The data area of the first window, half of it to lend, half of it to carry what lies elsewhere;
/// and memory that the client brought. The spans stay valid until this is destroyed: a daemon that
/// is started anew gets the same memory registered. Thread safety: one thread at a time.
class ClientMemory {
 public:
  /// Takes over the data area of a first connection.
  explicit ClientMemory(const Connection& first);

  /// Tells another daemon of all that the last one knew.
  Status attach(Connection* connection);

  /// ObjectStore::allocate and its kin.
  Status allocate(std::size_t bytes, std::span<std::byte>* memory);
  Status release(std::span<std::byte> memory);
  Status add(Connection* connection, int memfd, std::uint64_t offset, std::span<std::byte> mapping);
  Status remove(Connection* connection, std::span<std::byte> mapping);

  /// Where memory lies in a region; nothing if it must be carried.
  struct Place {
    std::uint32_t region = 0;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] std::optional<Place> find(std::span<const std::byte> memory) const;

  /// Room to carry bytes in.
  [[nodiscard]] RangeAllocator& carrier() { return carrier_; }
  [[nodiscard]] std::span<std::byte> carried(std::uint64_t offset, std::uint64_t bytes) const {
    return regions_.front().memory.subspan(offset, bytes);
  }
  /// Drops everything that is being carried.
  void reset_carrier() { carrier_ = RangeAllocator(carrier_.bytes()); }
  [[nodiscard]] std::uint32_t carrier_region() const { return regions_.front().number; }

 private:
  struct Region {
    std::span<std::byte> memory;
    FileDescriptor fd;
    std::uint64_t offset = 0;  ///< In the memfd.
    std::uint32_t number = 0;  ///< As this daemon knows it.
  };

  std::shared_ptr<SharedMemory> window_;
  std::vector<Region> regions_;  ///< The data area first.
  RangeAllocator carrier_;       ///< The first half of the data area.
  RangeAllocator lent_;          ///< The second half.
  std::map<const std::byte*, std::size_t> loans_;
};

}  // namespace nearkv
