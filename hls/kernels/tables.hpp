// The tables of ARITHMETIC.md sections 3.3, 3.4 and 4.1.
#ifndef NEARKV_HLS_TABLES_HPP_
#define NEARKV_HLS_TABLES_HPP_

#include <cstdint>

namespace nearkv::kernels {

/// A[i] = round(2^17 · 2^(i/64)) (3.4).
constexpr std::int32_t kExp2[65] = {
#include "exp2.inc"
};

/// B[i] = round(2^24 · log2(1 + i/128)) (4.1).
constexpr std::int32_t kLog2[129] = {
#include "log2.inc"
};

/// T[i] = round(2^24 · tanh(i/128)) (3.3).
constexpr std::int32_t kTanh[1025] = {
#include "tanh.inc"
};

/// low + ((high − low) · fraction >> bits).
constexpr std::int64_t interpolate(std::int64_t low, std::int64_t high, std::int64_t fraction,
                                   int bits) {
  return low + ((high - low) * fraction >> bits);
}

}  // namespace nearkv::kernels

#endif  // NEARKV_HLS_TABLES_HPP_
