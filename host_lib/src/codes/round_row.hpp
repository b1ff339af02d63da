// Weights of a query's row before codes (ARITHMETIC.md, section 12.1).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "codes/page_kernels.hpp"

namespace nearkv {

/// w of a row's T(q^).
template <typename T>
RowWeights round_row(std::span<const T> exact, std::int16_t* weights) {
  std::uint64_t sum = 0;
  for (const T number : exact) {
    sum += static_cast<std::uint64_t>(std::abs(std::int64_t{number}));
  }
  RowWeights made{.power = std::max(0, static_cast<int>(std::bit_width(sum)) - kWeightBits),
                  .length = 0,
                  .total = 0};
  for (std::size_t c = 0; c < exact.size(); ++c) {
    const auto weight = static_cast<std::int32_t>(
        made.power == 0 ? exact[c] : ((exact[c] >> (made.power - 1)) + 1) >> 1);
    made.length += std::abs(weight);
    made.total += weight;
    weights[c] = static_cast<std::int16_t>(weight);
  }
  return made;
}

}  // namespace nearkv
