// What the contract allows in each field of a command, as the tests' own reading of it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace nearkv::abi_test {

using Bytes = std::span<std::byte>;
using Random = std::mt19937_64;

/// A field of a command: its place, and the values that each of its elements may have.
struct Rule {
  std::string_view command;
  std::string_view field;
  std::size_t offset_bytes;
  std::size_t element_bytes;
  std::size_t count;
  std::uint64_t min;
  std::uint64_t max;
  std::uint64_t multiple;
  std::uint64_t mask;                  ///< Bits that may be set.
  std::vector<std::uint64_t> allowed;  ///< If not empty, the only values.

  [[nodiscard]] std::uint64_t largest() const;
  [[nodiscard]] bool allows(std::uint64_t value) const;
  [[nodiscard]] bool holds_in(std::span<const std::byte> command_bytes) const;

  /// A value that the rule allows, any with the same chance.
  [[nodiscard]] std::uint64_t good_value(Random& random) const;
  /// Every kind of value that the rule refuses: just outside each bound, between multiples, each
  /// forbidden bit, every other value of a small field. Empty if the field may hold anything.
  [[nodiscard]] std::vector<std::uint64_t> bad_values(Random& random) const;

  [[nodiscard]] std::uint64_t read(std::span<const std::byte> command_bytes,
                                   std::size_t element) const;
  void write(Bytes command_bytes, std::size_t element, std::uint64_t value) const;
};

/// The rules of one command in byte order, all commands if the name is empty.
std::vector<Rule> rules_of(std::string_view command);

/// Fills a command with values that its rules allow.
void fill_with_good_values(std::string_view command, Bytes command_bytes, Random& random);

}  // namespace nearkv::abi_test
