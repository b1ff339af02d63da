// Exponents as distances below their channel's largest, and bits as planes: what PLANES_LZ4
// compresses (FORMATS.md).
#ifndef NEARKV_HLS_EXPONENT_DELTA_HPP_
#define NEARKV_HLS_EXPONENT_DELTA_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr int kElementBits = 16;

/// The bit of a bf16 element that is in each plane, in the order of sections: delta bits, sign,
/// mantissa.
constexpr int kBitOfPlane[kElementBits] = {14, 13, 12, 11, 10, 9, 8, 7, 15, 6, 5, 4, 3, 2, 1, 0};

}  // namespace nearkv::kernels

/// Takes 64 rows of `channels` bf16 elements, which follow one another, apart. `references` takes
/// two bursts at most: a byte per channel; `planes` 16 planes of `channels` / 8 bursts.
extern "C" void nearkv_exponent_delta_encode(const nearkv::kernels::Burst* rows, int channels,
                                             nearkv::kernels::Burst* references,
                                             nearkv::kernels::Burst* planes);

/// The inverse, whatever the references and planes are.
extern "C" void nearkv_exponent_delta_decode(const nearkv::kernels::Burst* references,
                                             const nearkv::kernels::Burst* planes, int channels,
                                             nearkv::kernels::Burst* rows);

#endif  // NEARKV_HLS_EXPONENT_DELTA_HPP_
