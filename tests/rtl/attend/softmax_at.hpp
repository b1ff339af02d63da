// The model's softmax of a row with given sums.
#pragma once

#include <cstdint>
#include <vector>

#include "softmax.hpp"

namespace nearkv::rtl_test {

/// M, z and one channel's acc as given. The model has no setter: what it adds for tokens that are
/// not read adds anything.
inline model::RowSoftmax softmax_at(std::int64_t reference, std::int64_t z, std::int64_t acc) {
  constexpr std::int64_t kOneWeight = std::int64_t{1} << 12;
  constexpr std::int64_t kOneReciprocal = std::int64_t{1} << 28;
  model::RowSoftmax softmax(1);
  softmax.raise_reference(reference);
  softmax.add_rest(kOneWeight, std::vector<std::int64_t>{acc}, kOneReciprocal);
  softmax.add_rest(z - kOneWeight, std::vector<std::int64_t>{0}, 0);
  return softmax;
}

}  // namespace nearkv::rtl_test
