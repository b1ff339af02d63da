#include "codec/code_planes.hpp"

#include "codec/element_bytes.hpp"

namespace nearkv::codec {
namespace {

constexpr std::uint64_t kLowBitOfEachByte = 0x0101010101010101;

// Bit 0 of byte i becomes bit i; all other bits of `bytes` are clear.
constexpr std::uint64_t gather_low_bits(std::uint64_t bytes) {
  constexpr std::uint64_t kToTopByte = 0x0102040810204080;
  return (bytes * kToTopByte) >> 56;
}

// Bit i becomes bit 0 of byte i.
constexpr std::uint64_t scatter_low_bits(std::uint8_t bits) {
  constexpr std::uint64_t kBitOfEachByte = 0x8040201008040201;
  constexpr std::uint64_t kCarryIntoTopBit = 0x00406070787C7E7F;
  return ((((bits * kLowBitOfEachByte) & kBitOfEachByte) + kCarryIntoTopBit) >> 7) &
         kLowBitOfEachByte;
}

}  // namespace

void pack_code_planes(std::span<const std::uint8_t> codes, std::byte* planes,
                      std::size_t plane_stride_bytes) {
  const std::span<const std::byte> bytes = std::as_bytes(codes);
  for (std::size_t i = 0; i < codes.size() / 8; ++i) {
    const auto eight = load<std::uint64_t>(bytes.data() + 8 * i);
    for (std::size_t plane = 0; plane < kCodePlanes; ++plane) {
      planes[plane * plane_stride_bytes + i] =
          static_cast<std::byte>(gather_low_bits((eight >> (7 - plane)) & kLowBitOfEachByte));
    }
  }
}

void unpack_code_planes(const std::byte* planes, std::size_t plane_stride_bytes,
                        std::span<std::uint8_t> codes) {
  const std::span<std::byte> bytes = std::as_writable_bytes(codes);
  for (std::size_t i = 0; i < codes.size() / 8; ++i) {
    std::uint64_t eight = 0;
    for (std::size_t plane = 0; plane < kCodePlanes; ++plane) {
      const auto bits = std::to_integer<std::uint8_t>(planes[plane * plane_stride_bytes + i]);
      eight |= scatter_low_bits(bits) << (7 - plane);
    }
    store(bytes.data() + 8 * i, eight);
  }
}

void pack_nibbles(std::span<const std::uint8_t> codes, std::byte* nibbles) {
  const std::size_t half = codes.size() / 2;
  for (std::size_t c = 0; c < half; ++c) {
    nibbles[c] = static_cast<std::byte>((codes[c] & 0xF) | ((codes[c + half] & 0xF) << 4));
  }
}

void unpack_nibbles(const std::byte* nibbles, std::span<std::uint8_t> codes) {
  const std::size_t half = codes.size() / 2;
  for (std::size_t c = 0; c < half; ++c) {
    const auto both = std::to_integer<unsigned>(nibbles[c]);
    codes[c] = static_cast<std::uint8_t>(codes[c] | (both & 0xF));
    codes[c + half] = static_cast<std::uint8_t>(codes[c + half] | (both >> 4));
  }
}

}  // namespace nearkv::codec
