// Waiting for the other side without going to sleep at once.
#pragma once

#include <sched.h>

#include <chrono>

#include "device/pause.hpp"

namespace nearkv {

/// How long either side looks at a ring before it sleeps. Waking a thread takes longer than that.
inline constexpr std::chrono::microseconds kSpinTime{50};

/// Looks until `ready()` or kSpinTime is over; true if it is ready. After a while, whoever else
/// wants the core gets it: on a busy machine that may be the other side.
template <typename Ready>
bool spin_until(Ready ready) {
  constexpr int kLooksWithoutYielding = 100;
  for (int look = 0; look < kLooksWithoutYielding; ++look) {
    if (ready()) return true;
    pause_core();
  }
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    if (ready()) return true;
    ::sched_yield();
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace nearkv
