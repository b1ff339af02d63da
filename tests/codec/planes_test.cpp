// PLANES_* as FORMATS.md has it: sections in order, each zero, plain or compressed, with the bits
// where that page puts them.
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "blocks.hpp"

namespace nearkv::test {
namespace {

using Section = std::vector<std::byte>;

struct Format {
  unsigned sign;
  unsigned exponent;
  unsigned mantissa;
  bool special_top_exponent;
};

Format format_of(RowDtype dtype) {
  switch (dtype) {
    case RowDtype::kBf16:
      return {1, 8, 7, true};
    case RowDtype::kFp16:
      return {1, 5, 10, true};
    case RowDtype::kFp8E4m3:
      return {1, 4, 3, false};
    case RowDtype::kFp8E5m2:
      return {1, 5, 2, true};
    case RowDtype::kInt8:
      return {0, 4, 4, false};
  }
  return {};
}

// The plain sections of an encoded block.
std::vector<Section> expand(Codec codec, const std::vector<std::size_t>& plain_bytes,
                            std::span<const std::byte> block) {
  std::vector<Section> sections;
  std::size_t at = 2 * plain_bytes.size();
  for (std::size_t i = 0; i < plain_bytes.size(); ++i) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, block.data() + 2 * i, sizeof stored);
    Section section(plain_bytes[i]);
    if (stored == section.size()) {
      std::memcpy(section.data(), block.data() + at, stored);
    } else if (stored != 0 && codec == Codec::kPlanesZstd) {
      EXPECT_EQ(ZSTD_decompress(section.data(), section.size(), block.data() + at, stored),
                section.size());
    } else if (stored != 0) {
      EXPECT_EQ(LZ4_decompress_safe(reinterpret_cast<const char*>(block.data() + at),
                                    reinterpret_cast<char*>(section.data()), stored,
                                    static_cast<int>(section.size())),
                static_cast<int>(section.size()));
    }
    at += stored;
    sections.push_back(section);
  }
  EXPECT_EQ(at, block.size());
  return sections;
}

class Planes : public testing::TestWithParam<std::tuple<Codec, RowDtype>> {};

TEST_P(Planes, BitsLieWhereTheSpecificationPutsThem) {
  const auto [codec, dtype] = GetParam();
  constexpr std::size_t kDim = 48;
  const Format format = format_of(dtype);
  const BlockShape shape{Tensor::kKeys, dtype, kDim};
  for (const Distribution distribution : kDistributions) {
    SCOPED_TRACE(name(distribution));
    const auto rows = to_rows(shape, make_block(distribution, kDim, 4));
    const bool wide = rows.size() == 2 * kBlockTokens * kDim;
    const auto element = [&](std::size_t t, std::size_t c) {
      const std::size_t i = t * kDim + c;
      if (!wide) return std::to_integer<unsigned>(rows[i]);
      return std::to_integer<unsigned>(rows[2 * i]) | std::to_integer<unsigned>(rows[2 * i + 1])
                                                          << 8;
    };
    const unsigned top_exponent = (1U << format.exponent) - 1;
    const auto exponent = [&](std::size_t t, std::size_t c) {
      return element(t, c) >> format.mantissa & top_exponent;
    };

    const std::size_t plane = 8 * kDim;
    const unsigned high = format.exponent - 4;
    const bool pairs = codec == Codec::kPlanesZstd;
    std::vector<std::size_t> sizes{kDim};
    if (high != 0) sizes.push_back(high * plane);
    sizes.insert(sizes.end(), pairs ? 1 : 4, pairs ? 4 * plane : plane);
    sizes.insert(sizes.end(), format.sign + format.mantissa, plane);
    const auto sections = expand(codec, sizes, encode_block(codec, shape, rows));

    // Bits of the exponent delta from the top, then sign, then mantissa, plane after plane.
    std::vector<std::byte> planes;
    std::size_t pairs_at = 0;
    for (std::size_t i = 1; i < sections.size(); ++i) {
      if (pairs && i == (high != 0 ? 2U : 1U)) pairs_at = planes.size();
      planes.insert(planes.end(), sections[i].begin(), sections[i].end());
    }
    const auto plane_bit = [&](std::size_t index, std::size_t t, std::size_t c) {
      const std::byte byte = planes[index * plane + 8 * c + t / 8];
      return std::to_integer<unsigned>(byte) >> t % 8 & 1;
    };
    for (std::size_t c = 0; c < kDim; ++c) {
      const auto reference = std::to_integer<unsigned>(sections[0][c]);
      unsigned largest = 0;
      for (std::size_t t = 0; t < kBlockTokens; ++t) {
        const bool counts = !format.special_top_exponent || exponent(t, c) != top_exponent;
        if (counts) largest = std::max(largest, exponent(t, c));
      }
      ASSERT_EQ(reference, largest);
      for (std::size_t t = 0; t < kBlockTokens; ++t) {
        const unsigned delta = (reference - exponent(t, c)) & top_exponent;
        for (unsigned i = 0; i < format.exponent; ++i) {
          if (pairs && i >= high) break;
          ASSERT_EQ(plane_bit(i, t, c), delta >> (format.exponent - 1 - i) & 1);
        }
        if (pairs) {
          const std::byte pair = planes[pairs_at + t / 2 * kDim + c];
          ASSERT_EQ(std::to_integer<unsigned>(pair) >> (t % 2 * 4) & 0xF, delta & 0xF);
        }
        if (format.sign != 0) {
          ASSERT_EQ(plane_bit(format.exponent, t, c),
                    element(t, c) >> (format.exponent + format.mantissa));
        }
        for (unsigned i = 0; i < format.mantissa; ++i) {
          ASSERT_EQ(plane_bit(format.exponent + format.sign + i, t, c),
                    element(t, c) >> (format.mantissa - 1 - i) & 1);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Planes,
                         testing::Combine(testing::Values(Codec::kPlanesLz4, Codec::kPlanesZstd),
                                          testing::Values(RowDtype::kBf16, RowDtype::kFp16,
                                                          RowDtype::kFp8E4m3, RowDtype::kFp8E5m2,
                                                          RowDtype::kInt8)),
                         [](const auto& test) {
                           return std::string(name(std::get<0>(test.param)))
                               .append("_")
                               .append(name(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace nearkv::test
