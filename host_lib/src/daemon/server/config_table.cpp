#include "daemon/server/config_table.hpp"

#include <algorithm>
#include <sstream>

#include "device/uri.hpp"

namespace nearkv {
namespace {

std::string list_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text.append(text.empty() ? "" : ", ").append("\"").append(name).append("\"");
  }
  return text;
}

std::string range_text(std::uint64_t low, std::uint64_t high) {
  return "from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

void ConfigTable::refuse(std::string_view key, const std::string& why) const {
  const toml::node* const node = table_->get(key);
  const auto line = node != nullptr ? node->source().begin.line : table_->source().begin.line;
  std::string path = name_.empty() ? "" : name_ + ".";
  path.append(key);
  throw ConfigError(file_ + ":" + std::to_string(line) + ": " + path + ": " + why);
}

const toml::node* ConfigTable::find(std::string_view key) {
  taken_.emplace_back(key);
  return table_->get(key);
}

std::uint64_t ConfigTable::number(std::string_view key, const toml::node& node, std::uint64_t low,
                                  std::uint64_t high) const {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0 || static_cast<std::uint64_t>(*value) < low ||
      static_cast<std::uint64_t>(*value) > high) {
    refuse(key, "a whole number " + range_text(low, high) + " is allowed");
  }
  return static_cast<std::uint64_t>(*value);
}

std::size_t ConfigTable::choice(std::string_view key, const toml::node& node,
                                const std::vector<std::string_view>& names) const {
  const auto value = node.value_exact<std::string>();
  const auto found = value ? std::ranges::find(names, *value) : names.end();
  if (found == names.end()) refuse(key, "allowed are " + list_of(names));
  return static_cast<std::size_t>(found - names.begin());
}

void ConfigTable::take(std::string_view key, std::string* value, std::string_view allowed) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const auto text = node->value_exact<std::string>();
  if (!text || text->empty()) refuse(key, std::string(allowed) + " is allowed");
  *value = *text;
}

void ConfigTable::take(std::string_view key, bool* value) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const auto flag = node->value_exact<bool>();
  if (!flag) refuse(key, "true or false is allowed");
  *value = *flag;
}

void ConfigTable::take(std::string_view key, std::uint64_t* value, std::uint64_t low,
                       std::uint64_t high) {
  if (const toml::node* const node = find(key)) *value = number(key, *node, low, high);
}

void ConfigTable::take(std::string_view key, double* value, double low, double high) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const auto number = node->value<double>();
  if (!number || !(*number >= low && *number <= high)) {
    std::ostringstream text;
    text << "a number from " << low << " to " << high << " is allowed";
    refuse(key, text.str());
  }
  *value = *number;
}

void ConfigTable::take_size(std::string_view key, std::uint64_t* bytes, std::uint64_t low,
                            std::uint64_t high) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  if (node->is_integer()) {
    *bytes = number(key, *node, low, high);
    return;
  }
  const auto text = node->value_exact<std::string>();
  if (!text || parse_size(*text, bytes) != Status::kOk || *bytes < low || *bytes > high) {
    refuse(key, "a size like \"64MiB\" is allowed, " + range_text(low, high) + " bytes");
  }
}

void ConfigTable::take_mode(std::string_view key, std::uint32_t* mode) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const auto text = node->value_exact<std::string>();
  const bool octal = text && !text->empty() && text->size() <= 4 &&
                     text->find_first_not_of("01234567") == std::string::npos;
  const unsigned long value = octal ? std::stoul(*text, nullptr, 8) : 01000;
  if (value > 0777)
    refuse(key, "an octal text from \"0000\" to \"0777\" is allowed, like \"0660\"");
  *mode = static_cast<std::uint32_t>(value);
}

void ConfigTable::take_numbers(std::string_view key, std::vector<std::uint32_t>* values) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const toml::array* const list = node->as_array();
  if (list == nullptr) refuse(key, "a list of whole numbers is allowed, like [1000, 1001]");
  for (const toml::node& element : *list) {
    values->push_back(static_cast<std::uint32_t>(number(key, element, 0, 0xFFFFFFFE)));
  }
}

void ConfigTable::take_choice(std::string_view key, const std::vector<std::string_view>& names,
                              std::size_t* index) {
  if (const toml::node* const node = find(key)) *index = choice(key, *node, names);
}

void ConfigTable::take_choices(std::string_view key, const std::vector<std::string_view>& names,
                               std::optional<std::set<std::size_t>>* indices) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const toml::array* const list = node->as_array();
  if (list == nullptr) refuse(key, "a list is allowed, of " + list_of(names));
  indices->emplace();
  for (const toml::node& element : *list) (*indices)->insert(choice(key, element, names));
}

std::optional<ConfigTable> ConfigTable::table(std::string_view key) {
  const toml::node* const node = find(key);
  if (node == nullptr) return std::nullopt;
  const toml::table* const found = node->as_table();
  if (found == nullptr) refuse(key, "a table is allowed: [" + std::string(key) + "]");
  return ConfigTable(file_, std::string(key), *found);
}

std::vector<ConfigTable> ConfigTable::tables(std::string_view key) {
  const toml::node* const node = find(key);
  if (node == nullptr) return {};
  const toml::array* const list = node->as_array();
  std::vector<ConfigTable> found;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const toml::table* const element = (*list)[i].as_table();
    if (element != nullptr) found.emplace_back(file_, std::string(key), *element);
  }
  if (list == nullptr || found.size() != list->size()) {
    refuse(key, "tables are allowed: [[" + std::string(key) + "]]");
  }
  return found;
}

std::vector<ConfigTable> ConfigTable::table_or_tables(std::string_view key) {
  const toml::node* const node = table_->get(key);
  if (node == nullptr || !node->is_table()) return tables(key);
  return {*table(key)};
}

void ConfigTable::done() const {
  for (const auto& [key, node] : *table_) {
    if (std::ranges::find(taken_, key.str()) != taken_.end()) continue;
    std::vector<std::string_view> names(taken_.begin(), taken_.end());
    refuse(key.str(), "no such key; allowed here are " + list_of(names));
  }
}

}  // namespace nearkv
