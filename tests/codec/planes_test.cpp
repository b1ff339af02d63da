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

// What libzstd takes, and another reader of the format need not.
TEST(PlanesZstd, ASectionIsOneFrameWithoutChecksum) {
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, 64};
  Section rows(block_bytes(shape), std::byte{0x3F});
  const Section block = encode_block(Codec::kPlanesZstd, shape, rows);
  CodecWorkspace workspace;
  // All exponents are alike, so the references, which come first, are the only bytes but zeros
  // before the planes of sign and mantissa.
  const Section references(shape.dim, std::byte{0x7E});
  const auto decode_with = [&](std::span<const std::byte> section) {
    Section changed(block.begin(), block.end());
    std::uint16_t stored = 0;
    std::memcpy(&stored, block.data(), sizeof(stored));
    const std::size_t sections = 3 + 1 + 7;
    const auto at = changed.begin() + 2 * sections;
    changed.insert(changed.erase(at, at + stored), section.begin(), section.end());
    stored = static_cast<std::uint16_t>(section.size());
    std::memcpy(changed.data(), &stored, sizeof(stored));
    Section found(rows.size());
    const Status status = decode(Codec::kPlanesZstd, shape, changed, found, workspace);
    return status == Status::kOk && found != rows ? Status::kInternal : status;
  };
  const auto frame_of = [](std::span<const std::byte> plain, bool has_checksum) {
    const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> encoder(ZSTD_createCCtx(),
                                                                       &ZSTD_freeCCtx);
    ZSTD_CCtx_setParameter(encoder.get(), ZSTD_c_checksumFlag, has_checksum ? 1 : 0);
    Section frame(ZSTD_compressBound(plain.size()));
    frame.resize(
        ZSTD_compress2(encoder.get(), frame.data(), frame.size(), plain.data(), plain.size()));
    return frame;
  };
  const auto joined = [](Section first, const Section& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Section frame = frame_of(references, false);
  const Section empty = frame_of({}, false);
  const Section skipped = {std::byte{0x50}, std::byte{0x2A}, std::byte{0x4D}, std::byte{0x18},
                           std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0}};
  EXPECT_EQ(decode_with(frame), Status::kOk);
  EXPECT_EQ(decode_with(joined(frame, empty)), Status::kCodecError);
  EXPECT_EQ(decode_with(joined(empty, frame)), Status::kCodecError);
  EXPECT_EQ(decode_with(joined(frame, skipped)), Status::kCodecError);
  EXPECT_EQ(decode_with(joined(skipped, frame)), Status::kCodecError);
  EXPECT_EQ(decode_with(frame_of(references, true)), Status::kCodecError);
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
