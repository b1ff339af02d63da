// All queues of a device at work at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nearkv/queue.hpp"
#include "support/bench_device.hpp"

namespace nearkv::test {

/// What all queues together did.
struct ManyRuns {
  std::uint64_t cycles =
      0;  ///< Of the device, from before the first doorbell to the last completion.
  std::uint64_t commands = 0;
  std::uint64_t bursts = 0;  ///< That their completions count.
  bool failed = false;
  std::vector<std::vector<nkv_completion>> completions;  ///< Of each queue, in order.
};

/// Queues over the window of a BenchDevice, with rings of their own.
class ManyQueues {
 public:
  ManyQueues(BenchDevice* bench, unsigned queues);

  /// Submits a command to each queue, so many times, rings all doorbells and waits for everything.
  /// `commands` holds one for each queue.
  template <typename Command>
  ManyRuns run(const std::vector<Command>& commands, unsigned times) {
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      for (unsigned j = 0; j < times; ++j) submit(i, commands.at(i));
    }
    return finish();
  }

  /// Into the queue's ring; rung by finish(), which waits for all that was submitted.
  template <typename Command>
  void submit(std::size_t queue, const Command& command) {
    submit_bytes(queue, std::as_bytes(std::span(&command, 1)));
  }
  ManyRuns finish();

 private:
  void submit_bytes(std::size_t queue, std::span<const std::byte> command);

  Device* device_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace nearkv::test
