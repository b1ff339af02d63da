// A queue for who has memory and no registers: a GPU, a network card.
#pragma once

#include <cstdint>
#include <memory>

#include "nearkv/api.h"
#include "nearkv/queue.hpp"

namespace nearkv {

/// One of a device's queues, enabled and lent to somebody else, who works it by the contract:
/// writes commands with their phase into its ring, stores `sq_tail` to its doorbell in device
/// memory, takes completions by their phase and stores `cq_head`. No call of the library is part of
/// that.
///
/// Thread safety: one thread at a time opens and closes the lent queues of a device.
class NEARKV_API LentQueue {
 public:
  struct Options {
    Queue::Options queue;
    std::uint64_t doorbells_at = 0;  ///< Device address of doorbell_bytes(), a multiple of 64. All
                                     ///< lent queues of a device name the same.
  };

  /// Bytes that the doorbells of a device take.
  [[nodiscard]] static constexpr std::uint64_t doorbell_bytes() {
    return std::uint64_t{NKV_MAX_QUEUES} * NKV_DOORBELL_STRIDE_BYTES;
  }

  /// Clears the queue's doorbell and its rings, and enables both. `device` must outlive the queue.
  /// kUnsupported if the device has no doorbells in memory; kBadArgument if it refuses the rings or
  /// the window, or the doorbells are outside memory or elsewhere than those of other lent queues.
  static Status open(Device* device, const Options& options, std::unique_ptr<LentQueue>* queue);

  LentQueue(const LentQueue&) = delete;
  LentQueue& operator=(const LentQueue&) = delete;
  /// Disables doorbell and queue; what is in flight then ends without a completion.
  ~LentQueue();

  [[nodiscard]] const Options& options() const { return options_; }
  /// Device address of its line.
  [[nodiscard]] std::uint64_t doorbell_at() const {
    return options_.doorbells_at + std::uint64_t{options_.queue.index} * NKV_DOORBELL_STRIDE_BYTES;
  }

 private:
  LentQueue(Device* device, const Options& options, std::unique_ptr<Queue> queue);

  Device* device_;
  Options options_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace nearkv
