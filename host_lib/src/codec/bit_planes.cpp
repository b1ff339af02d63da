#include "codec/bit_planes.hpp"

#include <cstring>

#include "nearkv/codec.hpp"

namespace nearkv::codec {
namespace {

// A strip of 16 channels is worked on at a time, four 16-bit lanes in a 64-bit word. Exchanges move
// bits between words only at equal lanes or by whole lanes, so no lane leaks into another.
constexpr std::size_t kStrip = kBlockDimMultiple;
constexpr std::size_t kLanes = sizeof(std::uint64_t) / sizeof(std::uint16_t);
constexpr std::size_t kStripWords = kStrip / kLanes;
constexpr std::size_t kGroups = kBlockTokens / kWordBits;
static_assert(kGroups == kLanes);

// 16 tokens, or 16 bits of them.
using Group = std::array<std::array<std::uint64_t, kStripWords>, kWordBits>;
using Strip = std::array<Group, kGroups>;

// Exchanges the bits of `first` above kDistance with those of `second` below it, in each field of
// twice that width; `kLow` has the lower halves set.
template <unsigned kDistance, std::uint64_t kLow, std::size_t kWords>
void exchange(std::array<std::uint64_t, kWords>& first, std::array<std::uint64_t, kWords>& second) {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t differing = ((first[i] >> kDistance) ^ second[i]) & kLow;
    second[i] ^= differing;
    first[i] ^= differing << kDistance;
  }
}

template <unsigned kDistance, std::uint64_t kLow>
void exchange_bits(Group& group) {
  for (std::size_t row = 0; row < kWordBits; ++row) {
    if ((row & kDistance) == 0) exchange<kDistance, kLow>(group[row], group[row + kDistance]);
  }
}

// In each lane, bit j of row i becomes bit i of row j.
void transpose_bits(Group& group) {
  exchange_bits<8, 0x00FF00FF00FF00FF>(group);
  exchange_bits<4, 0x0F0F0F0F0F0F0F0F>(group);
  exchange_bits<2, 0x3333333333333333>(group);
  exchange_bits<1, 0x5555555555555555>(group);
}

template <unsigned kLaneDistance, std::uint64_t kLow>
void exchange_lanes(Group& first, Group& second) {
  for (std::size_t row = 0; row < kWordBits; ++row) {
    exchange<kLaneDistance * kWordBits, kLow>(first[row], second[row]);
  }
}

// Lane j of group i becomes lane i of group j.
void transpose_lanes(Strip& strip) {
  constexpr std::uint64_t kEvenLanes = 0x0000FFFF0000FFFF;
  constexpr std::uint64_t kLowLanes = 0x00000000FFFFFFFF;
  exchange_lanes<1, kEvenLanes>(strip[0], strip[1]);
  exchange_lanes<1, kEvenLanes>(strip[2], strip[3]);
  exchange_lanes<2, kLowLanes>(strip[0], strip[2]);
  exchange_lanes<2, kLowLanes>(strip[1], strip[3]);
}

}  // namespace

void to_bit_planes(std::span<const std::uint16_t> words, const BitPlanes<std::uint64_t>& planes) {
  const std::size_t dim = words.size() / kBlockTokens;
  Strip strip;
  for (std::size_t begin = 0; begin < dim; begin += kStrip) {
    for (std::size_t token = 0; token < kBlockTokens; ++token) {
      auto& row = strip[token / kWordBits][token % kWordBits];
      std::memcpy(row.data(), words.data() + token * dim + begin, sizeof row);
    }
    for (Group& group : strip) transpose_bits(group);
    transpose_lanes(strip);
    for (std::size_t bit = 0; bit < kWordBits; ++bit) {
      if (planes[bit] == nullptr) continue;
      std::uint64_t* const plane = planes[bit] + begin;
      for (std::size_t c = 0; c < kStrip; ++c) plane[c] = strip[c % kLanes][bit][c / kLanes];
    }
  }
}

void from_bit_planes(const BitPlanes<const std::uint64_t>& planes, std::span<std::uint16_t> words) {
  const std::size_t dim = words.size() / kBlockTokens;
  Strip strip;
  for (std::size_t begin = 0; begin < dim; begin += kStrip) {
    for (std::size_t bit = 0; bit < kWordBits; ++bit) {
      const std::uint64_t* const plane = planes[bit];
      for (std::size_t c = 0; c < kStrip; ++c) {
        strip[c % kLanes][bit][c / kLanes] = plane != nullptr ? plane[begin + c] : 0;
      }
    }
    transpose_lanes(strip);
    for (Group& group : strip) transpose_bits(group);
    for (std::size_t token = 0; token < kBlockTokens; ++token) {
      const auto& row = strip[token / kWordBits][token % kWordBits];
      std::memcpy(words.data() + token * dim + begin, row.data(), sizeof row);
    }
  }
}

}  // namespace nearkv::codec
