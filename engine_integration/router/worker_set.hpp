// A set of workers that readers may look at while it changes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "residency.hpp"

namespace nearkv::router {

/// Thread safety: every call from any thread.
class WorkerSet {
 public:
  [[nodiscard]] bool has(WorkerId worker) const {
    return (word(worker).load(std::memory_order_relaxed) & bit(worker)) != 0;
  }
  void insert(WorkerId worker) { word(worker).fetch_or(bit(worker), std::memory_order_relaxed); }
  void erase(WorkerId worker) { word(worker).fetch_and(~bit(worker), std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBits = 64;

  [[nodiscard]] static std::uint64_t bit(WorkerId worker) {
    return std::uint64_t{1} << worker % kBits;
  }
  [[nodiscard]] const std::atomic<std::uint64_t>& word(WorkerId worker) const {
    return words_[worker / kBits];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& word(WorkerId worker) { return words_[worker / kBits]; }

  std::array<std::atomic<std::uint64_t>, kMaxWorkers / kBits> words_{};
};

}  // namespace nearkv::router
