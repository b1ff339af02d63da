// Memory that several hosts map, and the caches between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv {

/// A region of memory that no hardware keeps coherent between hosts. Each host works through its
/// own instance, whose cache may hold any line at any age, write a dirty line back at any moment,
/// and moves whole lines of NKV_BURST_BYTES: two hosts must never write one line. Offsets and
/// lengths in bytes, inside the region. Not thread safe.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  [[nodiscard]] virtual std::uint64_t size_bytes() const = 0;

  /// Loads through the cache: as old as the cached lines are.
  virtual void copy_out(std::uint64_t at, std::span<std::byte> bytes) = 0;

  /// Stores into the cache: others see it once it is written back, in any order.
  virtual void copy_in(std::uint64_t at, std::span<const std::byte> bytes) = 0;

  /// Begins to write the lines back. They stay cached, clean.
  virtual void flush(std::uint64_t at, std::uint64_t bytes) = 0;

  /// Begins to drop the lines from the cache, writing back those that are dirty.
  virtual void invalidate(std::uint64_t at, std::uint64_t bytes) = 0;

  /// Returns when all that flush and invalidate began has reached memory; no later load or store is
  /// done earlier.
  virtual void fence() = 0;
};

}  // namespace nearkv
