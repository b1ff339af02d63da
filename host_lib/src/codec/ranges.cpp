#include "codec/ranges.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "nearkv/codec.hpp"

namespace nearkv::codec {
namespace {

// bf16 patterns in the order of their values, as two's complement numbers. Its own inverse.
constexpr std::int16_t ordered(std::uint16_t bits) {
  const auto key = static_cast<std::int16_t>(bits);
  return static_cast<std::int16_t>(key ^ ((key >> 15) & kBf16Magnitude));
}

constexpr std::int16_t kLeast = std::numeric_limits<std::int16_t>::min();
constexpr std::int16_t kGreatest = std::numeric_limits<std::int16_t>::max();

// Flushing is monotonous, so it commutes with taking the extremes.
constexpr std::uint16_t flushed_bits(std::int16_t key) {
  const auto bits = static_cast<std::uint16_t>(ordered(static_cast<std::uint16_t>(key)));
  return (bits & kBf16Exponent) == 0 ? std::uint16_t{0} : bits;
}

}  // namespace

void channel_ranges(std::span<const std::uint16_t> rows, std::span<Range> ranges) {
  const std::size_t dim = ranges.size();
  std::array<std::int16_t, kMaxBlockDim> least;
  std::array<std::int16_t, kMaxBlockDim> greatest;
  least.fill(kGreatest);
  greatest.fill(kLeast);
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const std::uint16_t* const row = rows.data() + token * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      const std::int16_t key = ordered(zero_unless_finite(row[c]));
      least[c] = std::min(least[c], key);
      greatest[c] = std::max(greatest[c], key);
    }
  }
  for (std::size_t c = 0; c < dim; ++c) {
    ranges[c] = {flushed_bits(least[c]), flushed_bits(greatest[c])};
  }
}

void token_ranges(std::span<const std::uint16_t> rows, std::span<Range> ranges) {
  const std::size_t dim = rows.size() / ranges.size();
  for (std::size_t token = 0; token < ranges.size(); ++token) {
    std::int16_t least = kGreatest;
    std::int16_t greatest = kLeast;
    for (const std::uint16_t bits : rows.subspan(token * dim, dim)) {
      const std::int16_t key = ordered(zero_unless_finite(bits));
      least = std::min(least, key);
      greatest = std::max(greatest, key);
    }
    ranges[token] = {flushed_bits(least), flushed_bits(greatest)};
  }
}

std::uint16_t greatest_magnitude(std::span<const std::uint16_t> elements) {
  std::int16_t greatest = 0;
  for (const std::uint16_t bits : elements) {
    greatest = std::max(greatest, static_cast<std::int16_t>(bits & kBf16Magnitude));
  }
  return static_cast<std::uint16_t>(greatest);
}

}  // namespace nearkv::codec
