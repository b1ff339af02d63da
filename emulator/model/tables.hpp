// The three tables of the datapath (sections 3.3, 3.4 and 4.1), correctly rounded.
#ifndef NEARKV_MODEL_TABLES_HPP_
#define NEARKV_MODEL_TABLES_HPP_

#include <array>
#include <cstdint>

namespace nearkv::model {

/// A[i] = round(2^17 · 2^(i/64)), i = 0..64 (3.4).
const std::array<int64_t, 65>& exp2_table();

/// B[i] = round(2^24 · log2(1 + i/128)), i = 0..128 (4.1).
const std::array<int64_t, 129>& log2_table();

/// T[i] = round(2^24 · tanh(i/128)), i = 0..1024 (3.3).
const std::array<int64_t, 1025>& tanh_table();

/// low + ((high − low) · fraction >> bits): how every table is read between two entries.
constexpr int64_t interpolate(int64_t low, int64_t high, int64_t fraction, int bits) {
  return low + ((high - low) * fraction >> bits);
}

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TABLES_HPP_
