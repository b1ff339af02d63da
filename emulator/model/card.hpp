// The device as its host sees it: registers and memory.
#ifndef NEARKV_MODEL_CARD_HPP_
#define NEARKV_MODEL_CARD_HPP_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "queue.hpp"
#include "support/device_memory.hpp"

namespace nearkv::model {

using emulator::DeviceMemory;

/// Commands execute inside the register write that makes them due: a doorbell, room in the
/// completion ring, or the enabling of a queue. wait() may run in another thread.
class Card {
 public:
  /// `features`: what the register says that the executor offers.
  explicit Card(std::unique_ptr<DeviceMemory> memory, Executor executor = execute,
                uint64_t features = kFeatures);
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  /// Reads a register; all ones where there is none.
  uint64_t read_csr(uint32_t offset);

  /// Writes a register; ignored where there is none that can be written.
  void write_csr(uint32_t offset, uint64_t value);

  [[nodiscard]] std::span<std::byte> memory() const { return memory_->bytes(); }

  /// Whether a completion was posted since the last call, or is within the time.
  bool wait(std::chrono::nanoseconds timeout);

 private:
  void write_queue(size_t number, uint32_t base_offset, uint64_t value);
  void reset();

  std::unique_ptr<DeviceMemory> memory_;
  Executor executor_;
  uint64_t features_;
  std::vector<Queue> queues_;
  std::mutex wait_mutex_;
  std::condition_variable posted_;
  uint64_t posted_count_ = 0;    // Guarded by wait_mutex_.
  uint64_t reported_count_ = 0;  // Guarded by wait_mutex_.
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CARD_HPP_
