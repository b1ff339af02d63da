// Code planes, nibbles and bit planes put each bit where the page layout says.
#include "codec/code_planes.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "blocks.hpp"
#include "codec/bit_planes.hpp"

namespace nearkv::test {
namespace {

std::vector<std::uint8_t> all_codes() {
  std::vector<std::uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), std::uint8_t{0});
  return codes;
}

TEST(CodePlanes, BitsLieInChannelOrder) {
  const auto codes = all_codes();
  constexpr std::size_t kStride = 40;
  std::vector<std::byte> planes(codec::kCodePlanes * kStride);
  codec::pack_code_planes(codes, planes.data(), kStride);
  for (std::size_t c = 0; c < codes.size(); ++c) {
    for (std::size_t plane = 0; plane < codec::kCodePlanes; ++plane) {
      const auto byte = std::to_integer<unsigned>(planes[plane * kStride + c / 8]);
      EXPECT_EQ(byte >> c % 8 & 1, codes[c] >> (7 - plane) & 1U);
    }
  }
}

TEST(CodePlanes, NibblesPairHalfARowApart) {
  const auto codes = all_codes();
  std::vector<std::byte> nibbles(codes.size() / 2);
  codec::pack_nibbles(codes, nibbles.data());
  for (std::size_t c = 0; c < nibbles.size(); ++c) {
    const auto byte = std::to_integer<unsigned>(nibbles[c]);
    EXPECT_EQ(byte & 0xF, codes[c] & 0xFU);
    EXPECT_EQ(byte >> 4, codes[c + nibbles.size()] & 0xFU);
  }
}

TEST(CodePlanes, UnpackingGivesTheCodesBack) {
  const auto codes = all_codes();
  std::vector<std::byte> planes(codec::kCodePlanes * codes.size() / 8);
  std::vector<std::byte> nibbles(codes.size() / 2);
  codec::pack_code_planes(codes, planes.data(), codes.size() / 8);
  codec::pack_nibbles(codes, nibbles.data());
  std::vector<std::uint8_t> unpacked(codes.size(), 0xFF);
  codec::unpack_code_planes(planes.data(), codes.size() / 8, unpacked);
  codec::unpack_nibbles(nibbles.data(), unpacked);
  EXPECT_EQ(unpacked, codes);
}

TEST(BitPlanes, BitTOfAWordIsTokenT) {
  for (const std::size_t dim : kDims) {
    const Words words = make_block(Distribution::kRandomBits, dim, 1);
    std::vector<std::uint64_t> memory(codec::kWordBits * dim);
    codec::BitPlanes<std::uint64_t> planes;
    codec::BitPlanes<const std::uint64_t> sources;
    for (std::size_t bit = 0; bit < codec::kWordBits; ++bit) {
      sources[bit] = planes[bit] = memory.data() + bit * dim;
    }
    codec::to_bit_planes(words, planes);
    for (std::size_t i = 0; i < words.size(); ++i) {
      for (std::size_t bit = 0; bit < codec::kWordBits; ++bit) {
        ASSERT_EQ(planes[bit][i % dim] >> i / dim & 1, words[i] >> bit & 1U) << dim;
      }
    }
    Words back(words.size());
    codec::from_bit_planes(sources, back);
    EXPECT_EQ(back, words) << dim;
  }
}

TEST(BitPlanes, NullPlanesAreSkippedAndReadAsZero) {
  constexpr std::size_t kDim = 32;
  const Words words = make_block(Distribution::kRandomBits, kDim, 1);
  std::vector<std::uint64_t> plane(kDim);
  codec::BitPlanes<std::uint64_t> planes{};
  codec::BitPlanes<const std::uint64_t> sources{};
  sources[5] = planes[5] = plane.data();
  codec::to_bit_planes(words, planes);
  Words back(words.size());
  codec::from_bit_planes(sources, back);
  for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(back[i], words[i] & 1U << 5);
}

}  // namespace
}  // namespace nearkv::test
