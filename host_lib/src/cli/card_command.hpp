// The subcommands of `nearkv card` that have files of their own, and what they share.
#pragma once

#include <CLI/CLI.hpp>
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

}  // namespace nearkv::cli
