// What the subcommands of `nearkv` share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/client/daemon_store.hpp"

namespace nearkv::cli {

/// Exit statuses, told by every page of help.
enum Exit : int {
  kDone = 0,
  kFailed = 1,   ///< What was asked for could not be done; standard error says why.
  kUsage = 2,    ///< The command line or a configuration is wrong.
  kDamaged = 3,  ///< It was done, and damage was found.
};

inline constexpr const char* kDefaultSocket = "/run/nearkv/nearkv.sock";

/// Ends a command: thrown by its parts, caught by main().
struct Failure {
  std::string text;
  Exit exit = kFailed;
};

// Each adds a subcommand, which sets `exit` when it runs.
void add_serve(CLI::App* app, int* exit);
void add_stat(CLI::App* app, int* exit);
void add_ls(CLI::App* app, int* exit);
void add_top(CLI::App* app, int* exit);
void add_inspect(CLI::App* app, int* exit);
void add_verify(CLI::App* app, int* exit);
void add_defrag(CLI::App* app, int* exit);
void add_card(CLI::App* app, int* exit);

/// The option of commands that talk to a daemon.
void add_socket_option(CLI::App* command, std::string* path);

/// Connects as an administrator; throws Failure.
[[nodiscard]] std::unique_ptr<DaemonStore> connect(const std::string& socket_path);

/// Throws Failure with what a status means here.
void require(Status status, const std::string& what);

/// The bytes of a size such as "64MiB", which `name` was given; throws Failure of wrong usage.
[[nodiscard]] std::uint64_t require_size(const std::string& name, const std::string& text);

/// "1.5 GiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "1,234,567".
[[nodiscard]] std::string count_text(std::uint64_t count);
/// "0x5d0000000".
[[nodiscard]] std::string address_text(std::uint64_t address);
[[nodiscard]] std::string hex_text(std::span<const std::byte> bytes);
/// What stands before the padding.
[[nodiscard]] std::string padded_text(std::span<const std::uint8_t> bytes);

/// A text that others chose, as a terminal may have it: what is no printable character of UTF-8,
/// such as an escape sequence's beginning, becomes "\x1b".
[[nodiscard]] std::string printable_text(std::string_view text);

/// Rows under headings, in columns; numbers to the right. Cells are made printable.
void print_table(const std::vector<std::string>& headings,
                 std::vector<std::vector<std::string>> rows);

/// A document, or with `is_line` a line of it at once. Exact, and of ASCII alone.
void print_json(const nlohmann::ordered_json& value, bool is_line = false);

}  // namespace nearkv::cli
