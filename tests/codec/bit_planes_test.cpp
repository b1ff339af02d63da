// Bit planes put each bit where the page layout says.
#include "codec/bit_planes.hpp"

#include <gtest/gtest.h>

#include "blocks.hpp"

namespace nearkv::test {
namespace {

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
