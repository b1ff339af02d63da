// What those subcommands of `nearkv card` share that watch a card for a while.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>

namespace nearkv::cli {

/// The option --seconds.
void add_seconds_option(CLI::App* command, double* seconds);

/// While it lives, Ctrl-C and TERM end a look, and not the program. One at a time.
class Look {
 public:
  explicit Look(double seconds);
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;
  ~Look();

  /// Sleeps for `time`, but not beyond the look's end. False: it has ended.
  [[nodiscard]] bool pause(std::chrono::milliseconds time) const;
  /// Since it began.
  [[nodiscard]] double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
  Clock::time_point end_;
};

}  // namespace nearkv::cli
