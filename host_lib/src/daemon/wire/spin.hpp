// Waiting for the other side without going to sleep at once.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "device/pause.hpp"

namespace nearkv {

/// How long either side looks at a ring before it sleeps: jobs of a few MiB end within it, and
/// waking a core that has gone idle costs a quarter of that.
inline constexpr std::chrono::microseconds kSpinTime{200};

/// Looks for what the other side writes; after some looks it offers the core to others between
/// them, for on a busy machine the other side may need this very one. How many looks come first it
/// learns: an answer after one offer says that the other side was waiting for the core, an answer
/// after several that it has another and that offers only cost time. Not thread safe.
class Spinner {
 public:
  /// Until `ready()` or kSpinTime is over; true if it is ready.
  template <typename Ready>
  bool until(Ready ready) {
    for (int look = 0; look < looks_; ++look) {
      if (ready()) return true;
      pause_core();
    }
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    int offers = 0;
    do {
      ::sched_yield();
      ++offers;
      if (ready()) {
        looks_ = offers == 1 ? std::max(looks_ / 2, kLeastLooks) : std::min(looks_ * 2, kMostLooks);
        return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

 private:
  static constexpr int kLeastLooks = 16;
  static constexpr int kMostLooks = 1024;  // About 20 us.

  int looks_ = 128;
};

}  // namespace nearkv
