// 64 tokens of 16-bit words as channel-major bit planes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nearkv::codec {

inline constexpr std::size_t kWordBits = 16;

/// Plane b, one 64-bit word per channel, is at [b]; bit t of it is bit b of token t's word. A null
/// plane is skipped by to_bit_planes() and counts as zeros in from_bit_planes().
template <typename Word>
using BitPlanes = std::array<Word*, kWordBits>;

/// `words` is [64][dim], dim a multiple of kBlockDimMultiple.
void to_bit_planes(std::span<const std::uint16_t> words, const BitPlanes<std::uint64_t>& planes);

/// The inverse.
void from_bit_planes(const BitPlanes<const std::uint64_t>& planes, std::span<std::uint16_t> words);

}  // namespace nearkv::codec
