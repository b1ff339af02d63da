// What a card's engine does, as its driver tells perf.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "card/perf_event.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Sums over all queues of a card. Bursts are of 64 bytes.
struct CardCounters {
  std::uint64_t commands = 0;        ///< That ended.
  std::uint64_t stream_bursts = 0;   ///< Read in order: rows, or what a scan takes,
  std::uint64_t refine_bursts = 0;   ///< of further planes of codes,
  std::uint64_t exact_bursts = 0;    ///< of exact keys,
  std::uint64_t value_bursts = 0;    ///< and of values.
  std::uint64_t written_bursts = 0;  ///< Other than completions.
  std::uint64_t busy_ticks = 0;      ///< With a command in flight, summed over queues.
};

/// Counts from open() on, whoever uses the card.
class CounterWatch {
 public:
  /// `card` as "nearkv0". As open_perf_event().
  Status open(const std::string& card, std::string* reason);

  /// What the engine has done since open(), up to now. kNoDevice: the card has gone.
  Status read(CardCounters* counters, std::string* reason) const;

 private:
  static constexpr std::size_t kEvents = 7;

  std::string card_;
  std::array<FileDescriptor, kEvents> events_;
};

}  // namespace nearkv
