// Which slab of a pool holds what: page slots of one size, objects, or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "nkv_abi.h"
#include "persist/persistence.hpp"

namespace nearkv {

/// The slab records in a pool's memory. A slab is recorded for its use before the first byte is
/// put there, so that after a crash pages are looked for only where this pool puts pages.
///
/// Thread safety: all calls; a slab is used by whoever reserved it.
class SlabTable {
 public:
  /// Takes up the records in `memory`; where only one copy is whole, that is the other's from now
  /// on. What it goes by is durable when it returns. Without `persistence` all is left as it is.
  SlabTable(std::span<std::byte> memory, const nkv_pool_header& header, Persistence* persistence);

  [[nodiscard]] std::size_t size() const { return uses_.size(); }
  [[nodiscard]] std::uint32_t slab_bytes() const { return slab_bytes_; }

  /// The slab's place in the pool's memory.
  [[nodiscard]] std::uint64_t address(std::size_t slab) const {
    return data_at_ + slab * slab_bytes_;
  }

  /// Size of its page slots, NKV_SLAB_OF_OBJECTS, or 0: free.
  [[nodiscard]] std::uint32_t use(std::size_t slab) const;

  /// A free slab that nobody else gets, not yet recorded; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> reserve();

  /// Records what a reserved slab is for; durable when this returns.
  void record(std::size_t slab, std::uint32_t use);

  /// Makes the slab free again; durable when this returns.
  void give_back(std::size_t slab);

  [[nodiscard]] std::size_t free_slabs() const;

 private:
  [[nodiscard]] std::uint32_t take_up(std::size_t slab);
  void write(std::size_t slab, std::uint32_t use);

  std::span<std::byte> memory_;
  std::uint64_t records_at_;
  std::uint64_t data_at_;
  std::uint32_t slab_bytes_;
  Persistence* persistence_;
  mutable std::mutex mutex_;
  std::vector<std::uint32_t> uses_;
  std::vector<std::uint32_t> free_;  ///< Lowest last.
};

}  // namespace nearkv
