// How long poll() may wait.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace nearkv {

/// Milliseconds until a deadline, rounded up: 0 when it has passed, an hour at the most, so that
/// who waits for longer has to ask again.
[[nodiscard]] inline int poll_ms(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

}  // namespace nearkv
