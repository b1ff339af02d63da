// Readers that wait for nobody, and writers that know when nobody reads any more.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace nearkv::router {

/// Sleepable read-copy-update (McKenney, SRCU), counted per core: what a writer has unpublished it
/// may free after wait_for_readers(). A reader neither waits nor is made to repeat.
///
/// What is published must be stored and loaded with std::memory_order_seq_cst.
class ReaderEpochs {
 public:
  /// As long as it lives, nothing that its thread has loaded is freed.
  class Reading {
   public:
    explicit Reading(std::atomic<std::uint64_t>* readers) : readers_(readers) {
      readers_->fetch_add(1, std::memory_order_seq_cst);
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() { readers_->fetch_sub(1, std::memory_order_release); }

   private:
    std::atomic<std::uint64_t>* readers_;
  };

  [[nodiscard]] Reading read() const {
    const int core = ::sched_getcpu();
    const std::size_t slot = core < 0 ? 0 : static_cast<std::size_t>(core) % kSlots;
    const std::size_t phase = phase_.load(std::memory_order_seq_cst) & 1;
    return Reading(&slots_[slot].readers[phase]);
  }

  /// Returns once all who read when it was called have ended. Not from a reader. Two turns, because
  /// a reader may have chosen its phase before the last turn and entered after it.
  void wait_for_readers() {
    const std::lock_guard lock(writers_);
    for (int turn = 0; turn < 2; ++turn) {
      const std::size_t left = phase_.fetch_add(1, std::memory_order_seq_cst) & 1;
      for (const Slot& slot : slots_) {
        while (slot.readers[left].load(std::memory_order_seq_cst) != 0) ::sched_yield();
      }
    }
  }

 private:
  static constexpr std::size_t kSlots = 32;

  struct alignas(128) Slot {  // Two lines: processors fetch lines in pairs.
    mutable std::array<std::atomic<std::uint64_t>, 2> readers{};
  };

  std::array<Slot, kSlots> slots_;
  std::atomic<std::size_t> phase_ = 0;
  std::mutex writers_;
};

}  // namespace nearkv::router
