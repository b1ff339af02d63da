#include "cli/command.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cwchar>
#include <cwctype>
#include <iostream>
#include <sstream>

#include "device/uri.hpp"

namespace nearkv::cli {

void add_socket_option(CLI::App* command, std::string* path) {
  *path = kDefaultSocket;
  command->add_option("--socket", *path, "The daemon's socket")
      ->envname("NEARKV_SOCKET")
      ->capture_default_str();
}

std::unique_ptr<DaemonStore> connect(const std::string& socket_path) {
  ObjectStore::ClientOptions options;
  options.window_bytes = 0;
  options.patience = {};
  std::unique_ptr<DaemonClient> client;
  std::string reason;
  if (DaemonClient::connect(socket_path, options, &client, &reason) != Status::kOk) {
    throw Failure{reason};
  }
  return std::make_unique<DaemonStore>(std::move(client));
}

void require(Status status, const std::string& what) {
  if (status == Status::kOk) return;
  if (status == Status::kDenied) {
    throw Failure{what + ": the daemon gives that only to administrators; add \"admin\" to the " +
                  "permissions of a [[tenant]] that names you"};
  }
  throw Failure{what + ": " + std::string(message(status))};
}

std::uint64_t require_size(const std::string& name, const std::string& text) {
  std::uint64_t bytes = 0;
  if (parse_size(text, &bytes) != Status::kOk) {
    throw Failure{name + ": '" + text + "' is no size; 64MiB is one", kUsage};
  }
  return bytes;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string count_text(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string address_text(std::uint64_t address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

std::string hex_text(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string padded_text(std::span<const std::uint8_t> bytes) {
  const auto end = std::ranges::find(bytes, std::uint8_t{0});
  return {bytes.begin(), end};
}

std::string printable_text(std::string_view text) {
  std::string printable;
  std::mbstate_t state{};
  while (!text.empty()) {
    wchar_t letter = 0;
    std::size_t bytes = std::mbrtowc(&letter, text.data(), text.size(), &state);
    const bool is_letter = bytes != 0 && bytes <= text.size();
    if (!is_letter) {
      bytes = 1;
      state = {};
    }
    const std::string_view taken = text.substr(0, bytes);
    if (is_letter && std::iswprint(static_cast<std::wint_t>(letter)) != 0) {
      printable += taken;
    } else {
      for (const char byte : taken)
        printable += "\\x" + hex_text(std::as_bytes(std::span(&byte, 1)));
    }
    text.remove_prefix(bytes);
  }
  return printable;
}

void print_table(const std::vector<std::string>& headings,
                 std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  widths.reserve(headings.size());
  for (const std::string& heading : headings) widths.push_back(heading.size());
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable_text(row[i]);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool number = !row[i].empty() && row[i].front() >= '0' && row[i].front() <= '9';
      line += i == 0 ? "" : "  ";
      line += number ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  };
  print(headings);
  for (const auto& row : rows) print(row);
}

void print_json(const nlohmann::ordered_json& value, bool is_line) {
  std::cout << value.dump(is_line ? -1 : 2, ' ', /*ensure_ascii=*/true,
                          nlohmann::json::error_handler_t::replace)
            << '\n'
            << std::flush;
}

}  // namespace nearkv::cli
