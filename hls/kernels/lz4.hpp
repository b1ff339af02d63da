// LZ4 blocks of up to 64 KiB: what a section of PLANES_LZ4 is.
#ifndef NEARKV_HLS_LZ4_HPP_
#define NEARKV_HLS_LZ4_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

constexpr int kMostPlainBytes = 65536;

/// Most bytes that the encoder makes of `plain_bytes`: those that liblz4 promises.
constexpr int most_lz4_bytes(int plain_bytes) { return plain_bytes + plain_bytes / 255 + 16; }

}  // namespace nearkv::kernels

/// Expands a block of `block_bytes` to exactly `plain_bytes`, 64 KiB at most. False if it is none
/// of that size, or has an offset of zero; then `plain` holds anything within its last burst.
extern "C" bool nearkv_lz4_decode(const nearkv::kernels::Burst* block, int block_bytes,
                                  int plain_bytes, nearkv::kernels::Burst* plain);

/// Compresses `plain_bytes`, 1 to 64 KiB, and returns the block's bytes: at most
/// most_lz4_bytes(plain_bytes).
extern "C" int nearkv_lz4_encode(const nearkv::kernels::Burst* plain, int plain_bytes,
                                 nearkv::kernels::Burst* block);

#endif  // NEARKV_HLS_LZ4_HPP_
