// Going through what an observation names.
#pragma once

#include <cstddef>

#include "nearkv/retention.hpp"

namespace nearkv {

/// Calls use(id, mass) for each token that an observation names, row after row.
template <typename Use>
void each_named(const Observation& seen, Use use) {
  for (std::size_t row = 0; row < seen.rows; ++row) {
    for (std::size_t i = row * seen.stride; i < row * seen.stride + seen.counts[row]; ++i) {
      use(seen.ids[i], seen.mass[i]);
    }
  }
}

}  // namespace nearkv
