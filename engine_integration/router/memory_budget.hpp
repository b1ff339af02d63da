// How much memory an index has taken, and may take.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearkv::router {

/// Bytes under one limit. Thread safety: every call from any thread.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Whether what is taken makes room soon, or is for more than there was. The latter leaves a
  /// sixteenth of the limit, so that what holds things already can always be rearranged.
  enum class Purpose : std::uint8_t { kRearrange, kGrow };

  /// False, and nothing is taken, where the limit would be passed.
  [[nodiscard]] bool take(std::size_t bytes, Purpose purpose) {
    const std::size_t limit =
        purpose == Purpose::kGrow ? limit_bytes_ - limit_bytes_ / 16 : limit_bytes_;
    if (used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit) return true;
    give_back(bytes);
    return false;
  }
  void give_back(std::size_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  [[nodiscard]] std::size_t used_bytes() const {
    return used_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t limit_bytes() const { return limit_bytes_; }

 private:
  std::atomic<std::size_t> used_bytes_ = 0;
  std::size_t limit_bytes_;
};

}  // namespace nearkv::router
