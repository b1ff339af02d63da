// Constants of errors' energies (ARITHMETIC.md, section 13), in sixteenths of octaves. There are no
// functions here, because files that are compiled for other processors include this one.
#pragma once

#include <cstdint>

namespace nearkv {

/// The logarithm of nothing; sums of it and of other terms stand for nothing, too.
inline constexpr int kNothing = -(1 << 28);
inline constexpr int kLeastOfSome = kNothing / 2;  ///< What is less stands for nothing.

inline constexpr std::int16_t kNoLog16 = -32768;  ///< The logarithm of nothing, in 16 bits.

/// l: what the amplitude of an error adds to its energy's price, without planes of V and with some.
inline constexpr int kCoherenceOfNone = -35;
inline constexpr int kCoherenceOfCodes = -75;

}  // namespace nearkv
