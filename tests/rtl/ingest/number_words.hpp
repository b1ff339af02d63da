// Decoded elements as words of a module's ports negative_i, exponent_i, significand_i.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nkv_abi.h"
#include "number.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kLanes = 32;

inline unsigned words_of(unsigned dim) { return (dim + kLanes - 1) / kLanes; }

/// Numbers [PAGE_TOKENS][dim].
using Numbers = std::vector<model::Number>;

/// Puts what value_statistics' and digest_build's ports share: everything but finite_i.
template <typename Module>
void put_word(Module* module, std::span<const model::Number> row, unsigned index) {
  module->negative_i = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned channel = index * kLanes + i;
    const model::Number number = channel < row.size() ? row[channel] : model::Number{};
    module->negative_i |= std::uint32_t{number.negative} << i;
    module->exponent_i[i] = static_cast<std::uint8_t>(number.exponent);
    module->significand_i[i] = static_cast<std::uint32_t>(number.significand);
  }
}

/// Bit i: lane i of the word is finite.
inline std::uint32_t finite_lanes(std::span<const model::Number> row, unsigned index) {
  std::uint32_t lanes = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned channel = index * kLanes + i;
    if (channel >= row.size() || row[channel].finite) lanes |= 1u << i;
  }
  return lanes;
}

/// A number of `bits` significant bits, 1 to 11.
inline model::Number random_number(test::Random& random, int exponent, unsigned bits = 8) {
  const auto low = static_cast<std::uint32_t>(random()) & ((1u << (bits - 1)) - 1);
  return {.negative = random() % 2 != 0,
          .exponent = exponent,
          .significand = std::int64_t{(1u << (bits - 1) | low)} << (24 - bits)};
}

}  // namespace nearkv::rtl_test
