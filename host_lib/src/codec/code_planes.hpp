// Rows of 8-bit codes as the bit planes and nibbles of the page layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nkv_abi.h"

namespace nearkv::codec {

/// Search planes: bits 7..4 of each code.
inline constexpr std::size_t kCodePlanes = NKV_KEY_PLANES;

/// One token's codes to its dim / 8 bytes of each plane: channel c is bit c % 8 of byte c / 8.
/// Plane p (bit 7 - p) starts at `planes + p * plane_stride_bytes`.
void pack_code_planes(std::span<const std::uint8_t> codes, std::byte* planes,
                      std::size_t plane_stride_bytes);

/// Fills bits 7..4 of one token's codes from its planes and clears the others.
void unpack_code_planes(const std::byte* planes, std::size_t plane_stride_bytes,
                        std::span<std::uint8_t> codes);

/// The low halves of one token's codes, two to a byte: channel c in the low half of byte c, channel
/// c + dim / 2 in its high half.
void pack_nibbles(std::span<const std::uint8_t> codes, std::byte* nibbles);

/// Fills bits 3..0 of codes in which they are clear.
void unpack_nibbles(const std::byte* nibbles, std::span<std::uint8_t> codes);

}  // namespace nearkv::codec
