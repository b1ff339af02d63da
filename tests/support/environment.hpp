// How much a test does, where its environment says so.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace nearkv::test {

/// The number that the environment gives a variable (decimal, 0x or 0), or what is usual.
inline std::uint64_t chosen_number(const char* variable, std::uint64_t usual) {
  const char* const chosen = std::getenv(variable);
  return chosen != nullptr ? std::strtoull(chosen, nullptr, 0) : usual;
}

/// Whether NEARKV_TEST_SIZE asks for the long size of a test.
inline bool is_long() {
  const char* const chosen = std::getenv("NEARKV_TEST_SIZE");
  const std::string size = chosen != nullptr ? chosen : "default";
  if (size == "default" || size == "long") return size == "long";
  throw std::invalid_argument("NEARKV_TEST_SIZE is default or long, not '" + size + "'");
}

/// How often a test does what it repeats, in its default and its long size.
inline std::uint64_t by_size(std::uint64_t usual, std::uint64_t when_long) {
  return is_long() ? when_long : usual;
}

}  // namespace nearkv::test
