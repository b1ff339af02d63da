// The model's softmax of a row with given sums.
#pragma once

#include <cstdint>

#include "softmax.hpp"

namespace nearkv::rtl_test {

/// M, z and one channel's acc as given.
inline model::RowSoftmax softmax_at(std::int64_t reference, std::int64_t z, std::int64_t acc) {
  return {reference, z, {acc}};
}

}  // namespace nearkv::rtl_test
