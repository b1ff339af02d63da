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

// Adding the number of non-finite patterns of a sign, modulo 2^16, puts all that are not finite
// below the finite ones; subtracting it puts them above. So a plain maximum and minimum skip them.
constexpr int kNonFinite = 0x80;
constexpr std::int16_t kGreatestFinite = kBf16Exponent - 1;

constexpr std::int16_t raised(std::int16_t key) {
  return static_cast<std::int16_t>(key + kNonFinite);
}
constexpr std::int16_t lowered(std::int16_t key) {
  return static_cast<std::int16_t>(key - kNonFinite);
}

// Above every finite element, and below.
constexpr std::int16_t kNoneLowered = std::numeric_limits<std::int16_t>::max();
constexpr std::int16_t kNoneRaised = std::numeric_limits<std::int16_t>::min();

// Flushing is monotonous, so it commutes with taking the extremes.
constexpr std::uint16_t flushed_bits(std::int16_t key) {
  const auto bits = static_cast<std::uint16_t>(ordered(static_cast<std::uint16_t>(key)));
  return (bits & kBf16Exponent) == 0 ? std::uint16_t{0} : bits;
}

constexpr Range to_range(std::int16_t least_lowered, std::int16_t greatest_raised) {
  if (least_lowered > lowered(kGreatestFinite)) return {};
  return {flushed_bits(raised(least_lowered)), flushed_bits(lowered(greatest_raised))};
}

}  // namespace

void channel_ranges(std::span<const std::uint16_t> rows, std::span<Range> ranges) {
  const std::size_t dim = ranges.size();
  std::array<std::int16_t, kMaxBlockDim> least;
  std::array<std::int16_t, kMaxBlockDim> greatest;
  least.fill(kNoneLowered);
  greatest.fill(kNoneRaised);
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    const std::uint16_t* const row = rows.data() + token * dim;
    for (std::size_t c = 0; c < dim; ++c) {
      const std::int16_t key = ordered(row[c]);
      least[c] = std::min(least[c], lowered(key));
      greatest[c] = std::max(greatest[c], raised(key));
    }
  }
  for (std::size_t c = 0; c < dim; ++c) ranges[c] = to_range(least[c], greatest[c]);
}

void token_ranges(std::span<const std::uint16_t> rows, std::span<Range> ranges) {
  const std::size_t dim = rows.size() / ranges.size();
  for (std::size_t token = 0; token < ranges.size(); ++token) {
    std::int16_t least = kNoneLowered;
    std::int16_t greatest = kNoneRaised;
    for (const std::uint16_t bits : rows.subspan(token * dim, dim)) {
      const std::int16_t key = ordered(bits);
      least = std::min(least, lowered(key));
      greatest = std::max(greatest, raised(key));
    }
    ranges[token] = to_range(least, greatest);
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
