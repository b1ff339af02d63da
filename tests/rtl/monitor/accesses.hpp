// Accesses for a sketch to count.
#pragma once

#include <cstdint>
#include <vector>

#include "support/seed.hpp"

namespace nearkv::rtl_test {

using Units = std::vector<std::uint32_t>;

/// Of any unit; the greater `skew`, the more of them to few.
inline Units some_units(std::size_t count, unsigned skew, test::Random& random) {
  Units units(count);
  for (std::uint32_t& unit : units) {
    const auto bits = static_cast<unsigned>(random() % (skew + 1));
    unit = static_cast<std::uint32_t>(random() % (std::uint64_t{1} << (22 - bits)));
  }
  return units;
}

}  // namespace nearkv::rtl_test
