// Commands and completions: one submission ring and one completion ring in device memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "nearkv/api.h"
#include "nearkv/device.hpp"
#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// One of a device's queues. A command is a 64-byte store into its ring and a doorbell; addresses
/// in commands count from the start of the queue's window.
///
/// Thread safety: one thread at a time.
class NEARKV_API Queue {
 public:
  struct Options {
    unsigned index = 0;               ///< Which of the device's queues.
    std::uint32_t ring_entries = 64;  ///< A power of two, 16 to 4096.
    std::uint64_t rings_at = 0;       ///< Device address of both rings; ring_bytes() of them.
    std::uint64_t window_base = 0;    ///< Device memory that commands may touch.
    std::uint64_t window_bytes = 0;
    std::uint16_t tenant = 0;
    /// Longest wait in open() for what an earlier user of the queue left running.
    std::chrono::milliseconds stop_timeout{20000};
  };

  /// Bytes that two rings of `ring_entries` take.
  [[nodiscard]] static constexpr std::uint64_t ring_bytes(std::uint32_t ring_entries) {
    return 2ULL * ring_entries * NKV_COMMAND_BYTES;
  }

  /// Stops the queue, programs its registers and enables it. `device` must outlive the queue.
  /// kTimeout if it does not stop, and nothing has changed; kBadArgument if the device refuses the
  /// rings or the window, kNoDevice if it has gone.
  static Status open(Device* device, const Options& options, std::unique_ptr<Queue>* queue);

  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue();

  /// Puts a command into the ring under a fresh tag (its own is ignored, and so is the flag that
  /// says that a slot is written). It is not seen by the device before ring(). kQueueFull if as
  /// many commands are in flight as the ring holds.
  template <typename Command>
  Status submit(const Command& command, std::uint16_t* tag) {
    static_assert(sizeof(Command) == NKV_COMMAND_BYTES);
    return submit_bytes(std::as_bytes(std::span(&command, 1)), tag);
  }

  /// Marks all commands submitted so far as written, and tells the device of them.
  void ring();

  /// Forgets the commands that were submitted since ring().
  void take_back();

  /// Takes completions that have arrived, at most completions.size(); returns how many.
  std::size_t poll(std::span<nkv_completion> completions);

  /// Sleeps until at least one completion can be polled. kTimeout if none comes in time; kAborted
  /// if the device was reset, or the queue stopped, and kNoDevice if it has gone: none will come.
  Status wait(std::chrono::nanoseconds timeout);

  /// Commands submitted and not yet polled.
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }

 private:
  Queue(Device* device, const Options& options);

  /// Disables a queue, and returns once nothing of it is in flight.
  static Status stop(Device* device, const Options& options);
  Status submit_bytes(std::span<const std::byte> command, std::uint16_t* tag);
  [[nodiscard]] bool arrived() const;
  /// The rings' phase in the round of a command or completion.
  [[nodiscard]] std::uint32_t phase(std::uint16_t index) const;
  [[nodiscard]] std::byte* submission(std::uint16_t index) const;
  [[nodiscard]] std::byte* completion(std::uint16_t index) const;

  Device* device_;
  Options options_;
  std::uint16_t tail_ = 0;    ///< Commands written, modulo 2^16.
  std::uint16_t rung_ = 0;    ///< Of those, what the device was told of.
  std::uint16_t polled_ = 0;  ///< Completions taken, modulo 2^16.
  std::uint32_t in_flight_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t forks_;  ///< Of the process whose queue it is.
};

}  // namespace nearkv
