// When to stop waiting.
#pragma once

#include <chrono>

namespace nearkv {

/// As good as for ever, and still a time that can be added to another.
inline constexpr std::chrono::hours kForever{24 * 365};

/// `patience` from now, on the clock that never jumps; its last moment where that is farther away
/// than it can tell.
template <typename Rep, typename Period>
[[nodiscard]] std::chrono::steady_clock::time_point deadline_after(
    std::chrono::duration<Rep, Period> patience) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const Clock::time_point now = Clock::now();
  if (Seconds(patience) >= Seconds(Clock::time_point::max() - now)) {
    return Clock::time_point::max();
  }
  return patience.count() <= 0 ? now : now + std::chrono::duration_cast<Clock::duration>(patience);
}

}  // namespace nearkv
