// Parameters that users give by name, against the tables of those who take them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "nearkv/retention.hpp"

namespace nearkv {

template <std::size_t kCount>
using ParameterTable = std::array<Parameter, kCount>;

/// The entry of a table by its `name`; null if there is none.
template <typename Named>
const Named* find_named(std::span<const Named> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Named::name);
  return found == table.end() ? nullptr : &*found;
}

/// A table's names, for a message.
template <typename Named>
std::string names_of(std::span<const Named> table) {
  std::string names;
  for (const Named& one : table) {
    if (!names.empty()) names += ", ";
    names += one.name;
  }
  return names.empty() ? "none" : names;
}

/// All parameters of `owner`: those given, the others' own values. kBadArgument, with a `reason`
/// that names `owner` and what it takes, for an unknown one or one out of its range.
Status settle(std::string_view owner, std::span<const Parameter> known, const Parameters& given,
              Parameters* parameters, std::string* reason);

}  // namespace nearkv
