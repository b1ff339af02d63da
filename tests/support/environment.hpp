// How much a test does, where its environment says so.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace nearkv::test {

/// The number that the environment gives a variable (decimal, 0x or 0), or what is usual.
inline std::uint64_t chosen_number(const char* variable, std::uint64_t usual) {
  const char* const chosen = std::getenv(variable);
  return chosen != nullptr ? std::strtoull(chosen, nullptr, 0) : usual;
}

}  // namespace nearkv::test
