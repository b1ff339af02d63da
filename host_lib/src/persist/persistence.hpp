// How stores to a pool's memory become durable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nearkv/device.hpp"

namespace nearkv {

/// The one way in which anything that must survive is written: store, write back, fence. Code that
/// keeps to it survives what its memory survives: nothing (anonymous memory), the end of the
/// process (a file's page cache), or the loss of power (DAX). Tests put an implementation in its
/// place that forgets whatever was not written back and fenced.
///
/// Thread safety: all calls. A fence covers what the same thread wrote back.
class Persistence {
 public:
  /// For memory of the given durability.
  static std::unique_ptr<Persistence> make(Durability durability);

  Persistence() = default;
  Persistence(const Persistence&) = delete;
  Persistence& operator=(const Persistence&) = delete;
  virtual ~Persistence() = default;

  /// Starts to write back the lines that hold `bytes`; after the next fence they are durable.
  virtual void write_back(std::span<const std::byte> bytes) noexcept = 0;

  /// The same for bytes that were stored non-temporally, which need no writing back.
  virtual void streamed(std::span<const std::byte> bytes) noexcept = 0;

  /// Orders all that was written back before all that is stored after.
  virtual void fence() noexcept = 0;

  /// Stores an aligned word, which no crash can tear, and starts to write it back.
  void publish(std::byte* place, std::uint64_t word) noexcept {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place))
        .store(word, std::memory_order_release);
    write_back({place, sizeof(word)});
  }
};

}  // namespace nearkv
