// One table of a configuration file, read key by key.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/status.hpp"

namespace nearkv {

/// What is wrong with a configuration file, for a person.
class ConfigError : public std::exception {
 public:
  explicit ConfigError(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Takes keys with their types and ranges; done() refuses those that nobody took. Every call throws
/// a ConfigError that names file, line and key. It is caught at the edge of parse_config().
class ConfigTable {
 public:
  /// `name` stands before the keys: "pool" for [pool], empty at the top.
  ConfigTable(std::string file, std::string name, const toml::table& table)
      : file_(std::move(file)), name_(std::move(name)), table_(&table) {}

  void take(std::string_view key, std::string* value, std::string_view allowed);
  void take(std::string_view key, bool* value);
  void take(std::string_view key, std::uint64_t* value, std::uint64_t low, std::uint64_t high);
  void take(std::string_view key, double* value, double low, double high);
  /// "64MiB" or a number of bytes.
  void take_size(std::string_view key, std::uint64_t* bytes, std::uint64_t low, std::uint64_t high);
  /// "0660": octal.
  void take_mode(std::string_view key, std::uint32_t* mode);
  void take_numbers(std::string_view key, std::vector<std::uint32_t>* values);
  /// A text that is one of `names`; gives its index.
  void take_choice(std::string_view key, const std::vector<std::string_view>& names,
                   std::size_t* index);
  /// Texts that each are one of `names`; gives their indices.
  void take_choices(std::string_view key, const std::vector<std::string_view>& names,
                    std::optional<std::set<std::size_t>>* indices);
  [[nodiscard]] bool has(std::string_view key) const { return table_->contains(key); }
  /// The table under a key; nothing if there is none.
  [[nodiscard]] std::optional<ConfigTable> table(std::string_view key);
  /// The tables of [[key]].
  [[nodiscard]] std::vector<ConfigTable> tables(std::string_view key);
  /// The one of [key], or those of [[key]].
  [[nodiscard]] std::vector<ConfigTable> table_or_tables(std::string_view key);

  /// Refuses keys that were not asked for.
  void done() const;

  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;

 private:
  [[nodiscard]] const toml::node* find(std::string_view key);
  [[nodiscard]] std::uint64_t number(std::string_view key, const toml::node& node,
                                     std::uint64_t low, std::uint64_t high) const;
  [[nodiscard]] std::size_t choice(std::string_view key, const toml::node& node,
                                   const std::vector<std::string_view>& names) const;

  std::string file_;
  std::string name_;
  const toml::table* table_;
  std::vector<std::string> taken_;
};

}  // namespace nearkv
