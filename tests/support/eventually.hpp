// Waiting for what comes in its own time.
#pragma once

#include <chrono>
#include <thread>

namespace nearkv::test {

/// Until `done()`; false if it takes longer than any machine needs.
template <typename Done>
bool eventually(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace nearkv::test
