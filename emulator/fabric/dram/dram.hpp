// DRAM behind a port that moves 64-byte lines, one a cycle each way or more: when each access is
// answered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "fabric/dram/channel.hpp"

namespace nearkv::dram {

/// Data are elsewhere: an access is a token, which comes back when its answer does. A write is
/// answered once a channel's queue has it. Each cycle: offer what is asked for, take what is
/// answered, advance.
class Dram {
 public:
  /// `latency_cycles`: what a read of a closed bank takes when nothing else happens, controller and
  /// wires included; at least least_latency(timing). `port_lines`: what the port moves in a cycle
  /// each way; who takes answers takes no more. `timing` must outlive this.
  Dram(const Timing& timing, unsigned latency_cycles, unsigned port_lines = 1);

  [[nodiscard]] static unsigned least_latency(const Timing& timing);

  [[nodiscard]] bool takes_reads() const { return reads_.size() < kQueued; }
  [[nodiscard]] bool takes_writes() const { return writes_.size() < kQueued; }
  void read(std::uint64_t token, std::uint64_t address);
  void write(std::uint64_t token, std::uint64_t address);

  /// The read and the write that are answered in this cycle; of a wider port, the next of them.
  std::optional<std::uint64_t> answered_read() { return next(&read_answers_); }
  std::optional<std::uint64_t> answered_write() { return next(&write_answers_); }

  void advance();

  [[nodiscard]] std::vector<Channel>& channels() { return channels_; }

 private:
  static constexpr std::size_t kQueued = 64;  // Before the channels' own queues; they keep order.
  struct Access {
    std::uint64_t token;
    Place place;
  };
  struct Answer {
    std::uint64_t at;
    std::uint64_t order;
    std::uint64_t token;
    friend auto operator<=>(const Answer&, const Answer&) = default;
  };
  using Answers = std::priority_queue<Answer, std::vector<Answer>, std::greater<>>;

  void feed();
  void answer(Answers* answers, std::uint64_t token, std::uint64_t clock);
  std::optional<std::uint64_t> next(Answers* answers);

  const Timing& timing_;
  unsigned path_cycles_;  // Of an answer, outside the DRAM.
  unsigned port_lines_;
  std::vector<Channel> channels_;
  std::deque<Access> reads_;
  std::deque<Access> writes_;
  Answers read_answers_;
  Answers write_answers_;
  std::uint64_t answer_count_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace nearkv::dram
