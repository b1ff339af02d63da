// A link, a drive or a network: one transfer after another.
#pragma once

#include <algorithm>

#include "request.hpp"

namespace nearkv::traces {

using scheduler::Seconds;

/// A server with one queue, first come first served: an M/G/1 queue where arrivals are Poisson's.
/// Times never go back from one transfer() to the next.
class Link {
 public:
  Link(double bytes_per_s, Seconds latency_s) : bytes_per_s_(bytes_per_s), latency_s_(latency_s) {}

  /// How long a transfer would take that began now: waiting, moving, latency. `fixed_s` is what it
  /// occupies the link for beside its bytes: requests of many pieces.
  [[nodiscard]] Seconds duration_s(Seconds now_s, double bytes, Seconds fixed_s = 0) const {
    return std::max(free_at_s_ - now_s, 0.0) + fixed_s + bytes / bytes_per_s_ + latency_s_;
  }

  /// When a transfer that begins now has arrived.
  Seconds transfer(Seconds now_s, double bytes, Seconds fixed_s = 0) {
    free_at_s_ = std::max(free_at_s_, now_s) + fixed_s + bytes / bytes_per_s_;
    bytes_ += bytes;
    return free_at_s_ + latency_s_;
  }

  [[nodiscard]] double bytes() const { return bytes_; }

 private:
  double bytes_per_s_;
  Seconds latency_s_;
  Seconds free_at_s_ = 0;
  double bytes_ = 0;  ///< Moved since the beginning.
};

}  // namespace nearkv::traces
