// A batch of commands with their operands staged in device memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nearkv/pool.hpp"
#include "nearkv/queue.hpp"

namespace nearkv {

/// Operands are copied into the staging area, commands go to the queue together, completions come
/// back in the order of submission. Counts what crosses the link and what the device read.
class CommandBatch {
 public:
  /// `memory` is the device's; staging is [begin, begin + bytes) of it.
  CommandBatch(Queue* queue, std::span<std::byte> memory, std::uint64_t begin, std::uint64_t bytes,
               NearStats* stats);

  /// Room in the staging area at a multiple of 64 bytes; false if it is full: run what there is
  /// first.
  [[nodiscard]] bool reserve(std::uint64_t bytes, std::uint64_t* address);

  /// Device memory at an address, as the host sees it.
  [[nodiscard]] std::byte* at(std::uint64_t address) const { return memory_.data() + address; }

  /// Copies bytes to reserved room and counts them.
  void write(std::uint64_t address, std::span<const std::byte> bytes);
  /// Copies results from the device and counts them.
  void read(std::uint64_t address, std::span<std::byte> bytes);

  /// Adds a command. kQueueFull: run what there is first.
  template <typename Command>
  Status add(const Command& command) {
    std::uint16_t tag = 0;
    const Status status = queue_->submit(command, &tag);
    if (status == Status::kOk) tags_.push_back(tag);
    return status;
  }

  /// Runs all added commands. kOk once every one has completed, whatever their own statuses;
  /// kTimeout if one has not, after which the device still reads and writes what they name, and the
  /// batch and its queue must not be used again.
  Status run(std::chrono::milliseconds timeout);

  /// Of the last run, in the order of add().
  [[nodiscard]] const std::vector<nkv_completion>& completions() const { return completions_; }

  /// Forgets completions, and commands that did not run, and gives all staging room back.
  void clear();

  /// The same, but what is staged stays where it is.
  void go_on();

  [[nodiscard]] std::size_t size() const { return tags_.size(); }

 private:
  Queue* queue_;
  std::span<std::byte> memory_;
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t next_;
  NearStats* stats_;
  std::vector<std::uint16_t> tags_;
  std::vector<nkv_completion> completions_;
};

}  // namespace nearkv
