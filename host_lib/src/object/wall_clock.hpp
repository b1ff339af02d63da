// The time of day, by which objects age.
#pragma once

#include <chrono>
#include <cstdint>

namespace nearkv {

/// Seconds since 1970. May jump; nothing but ages depends on it.
[[nodiscard]] inline std::uint64_t now_s() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

}  // namespace nearkv
