// How often objects were asked for lately, roughly.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "nearkv/object_store.hpp"

namespace nearkv {

/// Counts in a fixed table, halved from time to time: two objects may share a counter, so that one
/// looks hotter than it is. Thread safety: all calls.
class Hotness {
 public:
  /// Counts one use of a key; gives how many there were lately, this one included.
  unsigned count(std::uint32_t namespace_number, Key key) {
    const std::string_view text(reinterpret_cast<const char*>(key.data()), key.size());
    const std::size_t slot =
        (std::hash<std::string_view>{}(text) ^ std::size_t{namespace_number} * 0x9E3779B1U) %
        kSlots;
    if (counted_.fetch_add(1, std::memory_order_relaxed) % kHalveAfter == kHalveAfter - 1) halve();
    return counters_[slot].fetch_add(1, std::memory_order_relaxed) + 1U;
  }

 private:
  static constexpr std::size_t kSlots = 1 << 16;
  static constexpr std::uint64_t kHalveAfter = 2 * kSlots;

  void halve() {
    for (std::atomic<std::uint16_t>& counter : counters_) {
      counter.store(counter.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
    }
  }

  std::array<std::atomic<std::uint16_t>, kSlots> counters_{};
  std::atomic<std::uint64_t> counted_{0};
};

}  // namespace nearkv
