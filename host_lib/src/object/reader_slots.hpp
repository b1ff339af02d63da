// A lock for many readers and few writers.
#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <shared_mutex>

#include "object/shared_mutex.hpp"

namespace nearkv {

/// A SharedMutex whose readers share no cache line: a reader locks the slot of the core that it
/// runs on, a writer all slots. Readers thus scale with the cores; a writer pays some 20 ns a slot.
class ReaderSlots {
 public:
  /// Held by a reader.
  [[nodiscard]] std::shared_lock<SharedMutex> read() const {
    const int core = ::sched_getcpu();
    const std::size_t slot = core < 0 ? 0 : static_cast<std::size_t>(core) % kSlots;
    return std::shared_lock(slots_[slot].mutex);
  }

  /// Held by a writer.
  class Writing {
   public:
    explicit Writing(ReaderSlots* slots) : slots_(slots), turn_(slots->writers_) {
      for (Slot& slot : slots_->slots_) slot.mutex.lock();
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;
    ~Writing() {
      for (Slot& slot : slots_->slots_) slot.mutex.unlock();
    }

   private:
    ReaderSlots* slots_;
    std::lock_guard<std::mutex> turn_;  ///< One writer a slot, so that readers come between two.
  };
  [[nodiscard]] Writing write() { return Writing(this); }

 private:
  static constexpr std::size_t kSlots = 16;

  struct alignas(128) Slot {  // Two lines: processors fetch lines in pairs.
    mutable SharedMutex mutex;
  };

  std::array<Slot, kSlots> slots_;
  std::mutex writers_;
};

}  // namespace nearkv
