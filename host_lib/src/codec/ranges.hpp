// The span of values of each channel or token of a bf16 block.
#pragma once

#include <cstdint>
#include <span>

namespace nearkv::codec {

inline constexpr std::uint16_t kBf16Exponent = 0x7F80;
inline constexpr std::uint16_t kBf16Magnitude = 0x7FFF;
inline constexpr std::uint16_t kBf16Sign = 0x8000;

/// A pattern that is not finite counts as zero.
[[nodiscard]] constexpr std::uint16_t zero_unless_finite(std::uint16_t bits) {
  return (bits & kBf16Exponent) == kBf16Exponent ? std::uint16_t{0} : bits;
}

/// Least and greatest element, as bf16 patterns. Zeros, subnormals and elements that are not finite
/// count as +0.
struct Range {
  std::uint16_t low = 0;
  std::uint16_t high = 0;
};

/// Of each channel over the block's tokens. `rows` is [64][ranges.size()].
void channel_ranges(std::span<const std::uint16_t> rows, std::span<Range> ranges);

/// Of each token over its channels. `rows` is [ranges.size()][dim].
void token_ranges(std::span<const std::uint16_t> rows, std::span<Range> ranges);

/// The largest pattern without its sign, which is not finite from kBf16Exponent on.
[[nodiscard]] std::uint16_t greatest_magnitude(std::span<const std::uint16_t> elements);

[[nodiscard]] inline bool all_finite(std::span<const std::uint16_t> elements) {
  return greatest_magnitude(elements) < kBf16Exponent;
}

}  // namespace nearkv::codec
