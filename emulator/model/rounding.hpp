// Results back to floating point: round to nearest, ties to even (sections 4.1 and 6).
#ifndef NEARKV_MODEL_ROUNDING_HPP_
#define NEARKV_MODEL_ROUNDING_HPP_

#include <cstdint>

namespace nearkv::model {

/// ±magnitude · 2^power at 24 bits. Overflow gives the largest finite number of that sign,
/// underflow below the normal numbers gives +0 (section 4.1).
float round_to_binary32(bool negative, uint64_t magnitude, int power);

/// A binary32 number as bf16; what would round to an infinity gives the largest finite number.
uint16_t round_to_bf16(float value);

/// The binary32 number nearest to a binary64 one; beyond the range, an infinity.
float nearest_binary32(double value);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ROUNDING_HPP_
