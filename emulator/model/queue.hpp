// One queue of the device: a submission ring, a completion ring and what its commands may touch.
#ifndef NEARKV_MODEL_QUEUE_HPP_
#define NEARKV_MODEL_QUEUE_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine.hpp"

namespace nearkv::model {

/// The registers of a queue as software wrote them.
struct QueueRegisters {
  uint64_t sq_base = 0;
  uint64_t cq_base = 0;
  uint64_t ring_entries = 0;
  uint64_t control = 0;
  uint64_t sq_tail = 0;
  uint64_t cq_head = 0;
  uint64_t window_base = 0;
  uint64_t window_bytes = 0;
  uint64_t tenant = 0;
};

/// Registers other than the doorbells are taken when the queue is enabled.
class Queue {
 public:
  /// `executor` outlives the queue.
  Queue(std::span<std::byte> memory, const Executor& executor)
      : memory_(memory), executor_(&executor) {}

  [[nodiscard]] QueueRegisters& registers() { return registers_; }
  [[nodiscard]] uint64_t status() const;

  /// Follows a write of QUEUE_CONTROL: starts the queue at index 0 and phase 1, refuses to, or
  /// stops it.
  void set_enabled(bool enabled);

  /// Executes what is submitted as long as the completion ring has room, and waits for slots that
  /// are not written yet; returns how many completions it posted.
  uint64_t run();

 private:
  [[nodiscard]] bool is_acceptable() const;
  [[nodiscard]] bool has_command() const;
  [[nodiscard]] bool has_room() const;
  /// The next command; nothing if its slot is not written by then.
  [[nodiscard]] std::optional<Command> fetch(std::chrono::steady_clock::time_point deadline);
  void post(uint16_t tag, const Outcome& outcome);

  std::span<std::byte> memory_;
  const Executor* executor_;
  QueueRegisters registers_;
  QueueRegisters running_;  // As they were when the queue was enabled.
  bool is_running_ = false;
  bool is_refused_ = false;
  uint16_t sq_head_ = 0;  // Free-running, as the doorbells are.
  uint16_t cq_tail_ = 0;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_QUEUE_HPP_
