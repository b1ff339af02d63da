// Subcommands of `nearkv card` with files of their own, and what those share that watch a card for
// a while.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "card/mailbox.hpp"
#include "nearkv/status.hpp"

namespace nearkv::cli {

// Each adds itself below `nearkv card`, and sets `exit` when it runs.
void add_card_capacity(CLI::App* command, int* exit);
void add_card_counters(CLI::App* command, int* exit);
void add_card_hotlist(CLI::App* command, int* exit);
void add_card_events(CLI::App* command, int* exit);
void add_card_features(CLI::App* command, int* exit);
void add_card_firmware(CLI::App* command, int* exit);
void add_card_tenants(CLI::App* command, int* exit);

/// Throws Failure unless a card did what was asked: of wrong usage, if it refuses an argument.
void require_done(Status status, const std::string& reason);

/// Opens the mailbox of a card; throws Failure.
void open_mailbox(const std::string& card, CardMailbox* mailbox);

/// The argument that names a card.
void add_card_option(CLI::App* command, std::string* name);

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
