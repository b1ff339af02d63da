// The time of day, by which objects age.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>

namespace nearkv {

/// Gives the time of day, from any thread. It may jump; nothing but ages depends on it.
using WallClock = std::function<std::chrono::system_clock::time_point()>;

/// Seconds since 1970 as records keep them; from what they cannot keep, the next that they can.
[[nodiscard]] inline std::uint64_t record_seconds(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch());
  return static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(since.count(), 0, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace nearkv
