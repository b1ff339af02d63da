// What encode() and decode() promise apart from the formats: which shapes they take, what they
// refuse, and that nothing but the input decides the output.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "blocks.hpp"

namespace nearkv::test {
namespace {

constexpr std::array kCodecs{Codec::kNone, Codec::kPlanesLz4, Codec::kPlanesZstd,
                             Codec::kInt8, Codec::kInt4,      Codec::kFp8};

constexpr BlockShape kKeys{Tensor::kKeys, RowDtype::kBf16, 64};

TEST(CodecSupport, FollowsTheTable) {
  for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
    for (const RowDtype dtype : {RowDtype::kBf16, RowDtype::kFp16, RowDtype::kFp8E4m3,
                                 RowDtype::kFp8E5m2, RowDtype::kInt8}) {
      const BlockShape shape{tensor, dtype, 128};
      const bool bf16 = dtype == RowDtype::kBf16;
      EXPECT_TRUE(codec_supports(Codec::kNone, shape));
      EXPECT_TRUE(codec_supports(Codec::kPlanesLz4, shape));
      EXPECT_TRUE(codec_supports(Codec::kPlanesZstd, shape));
      EXPECT_EQ(codec_supports(Codec::kInt8, shape), bf16);
      EXPECT_EQ(codec_supports(Codec::kInt4, shape), bf16);
      EXPECT_EQ(codec_supports(Codec::kFp8, shape), bf16);
    }
  }
}

TEST(CodecSupport, NoCodecTakesAShapeThatIsNone) {
  for (const Codec codec : kCodecs) {
    for (const std::uint16_t dim : std::array<std::uint16_t, 5>{0, 8, 72, 592, 65520}) {
      const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, dim};
      EXPECT_FALSE(codec_supports(codec, shape)) << dim;
      EXPECT_EQ(encoded_bound(codec, shape), 0U);
      EXPECT_EQ(block_bytes(shape), 0U);
    }
    EXPECT_FALSE(
        codec_supports(codec, {std::bit_cast<Tensor>(std::uint8_t{2}), RowDtype::kBf16, 64}));
    EXPECT_FALSE(
        codec_supports(codec, {Tensor::kKeys, std::bit_cast<RowDtype>(std::uint8_t{2}), 64}));
  }
  for (unsigned number = 0; number < 64; ++number) {
    EXPECT_EQ(codec_supports(static_cast<Codec>(number), kKeys), is_codec(number)) << number;
  }
}

TEST(CodecArguments, SpansOfAnotherSizeAreRefused) {
  CodecWorkspace workspace;
  std::vector<std::byte> rows(block_bytes(kKeys));
  for (const Codec codec : kCodecs) {
    SCOPED_TRACE(name(codec));
    std::vector<std::byte> out(encoded_bound(codec, kKeys));
    std::size_t bytes = 0;
    const std::span all_rows(rows);
    const std::span all_out(out);
    EXPECT_EQ(encode(codec, kKeys, all_rows.first(rows.size() - 1), out, &bytes, workspace),
              Status::kBadArgument);
    EXPECT_EQ(encode(codec, kKeys, rows, all_out.first(out.size() - 1), &bytes, workspace),
              Status::kBadArgument);
    EXPECT_EQ(encode(codec, kKeys, rows, out, nullptr, workspace), Status::kBadArgument);
    ASSERT_EQ(encode(codec, kKeys, rows, out, &bytes, workspace), Status::kOk);
    EXPECT_EQ(
        decode(codec, kKeys, all_out.first(bytes), all_rows.first(rows.size() - 1), workspace),
        Status::kBadArgument);
  }
}

TEST(CodecArguments, UnsupportedShapesAreRefused) {
  CodecWorkspace workspace;
  const BlockShape half{Tensor::kValues, RowDtype::kFp16, 64};
  std::vector<std::byte> rows(block_bytes(half));
  std::vector<std::byte> out(4 * rows.size());
  std::size_t bytes = 0;
  EXPECT_EQ(encode(Codec::kInt8, half, rows, out, &bytes, workspace), Status::kBadArgument);
  EXPECT_EQ(decode(Codec::kInt8, half, out, rows, workspace), Status::kBadArgument);
}

// Rows may lie at any address, as they do in a page that was copied out of a message.
TEST(CodecArguments, SpansNeedNoAlignment) {
  CodecWorkspace workspace;
  const auto rows = to_rows(kKeys, make_block(Distribution::kGaussian, kKeys.dim, 3));
  for (const Codec codec : kCodecs) {
    SCOPED_TRACE(name(codec));
    const auto expected = encode_block(codec, kKeys, rows);
    std::vector<std::byte> shifted_rows(rows.size() + 1);
    std::vector<std::byte> shifted_out(encoded_bound(codec, kKeys) + 1);
    std::ranges::copy(rows, shifted_rows.begin() + 1);
    const auto out = std::span(shifted_out).subspan(1);
    std::size_t bytes = 0;
    ASSERT_EQ(encode(codec, kKeys, std::span(shifted_rows).subspan(1), out, &bytes, workspace),
              Status::kOk);
    EXPECT_TRUE(std::ranges::equal(out.first(bytes), expected));
    EXPECT_EQ(decode(codec, kKeys, out.first(bytes), std::span(shifted_rows).subspan(1), workspace),
              Status::kOk);
  }
}

TEST(CodecDeterminism, HistoryOfTheWorkspaceLeavesNoTrace) {
  CodecWorkspace used;
  for (const Codec codec : kCodecs) {
    for (const Distribution distribution : kDistributions) {
      for (const std::size_t dim : {std::size_t{576}, std::size_t{16}, std::size_t{128}}) {
        const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, static_cast<std::uint16_t>(dim)};
        const Words words = make_block(distribution, dim, 11);
        std::vector<std::byte> out(encoded_bound(codec, shape), std::byte{0xAA});
        std::size_t bytes = 0;
        const auto rows = to_rows(shape, words);
        if (encode(codec, shape, rows, out, &bytes, used) != Status::kOk) {
          EXPECT_FALSE(is_moderate(words)) << describe(codec, shape) << name(distribution);
          continue;
        }
        EXPECT_TRUE(
            std::ranges::equal(std::span(out).first(bytes), encode_block(codec, shape, rows)))
            << describe(codec, shape) << name(distribution);
      }
    }
  }
}

TEST(CodecWorkspace, MayBeMoved) {
  const auto rows = to_rows(kKeys, make_block(Distribution::kGaussian, kKeys.dim, 5));
  std::vector<std::byte> out(encoded_bound(Codec::kPlanesZstd, kKeys));
  std::size_t bytes = 0;
  CodecWorkspace first;
  ASSERT_EQ(encode(Codec::kPlanesZstd, kKeys, rows, out, &bytes, first), Status::kOk);
  CodecWorkspace second = std::move(first);
  std::vector<std::byte> decoded(rows.size());
  ASSERT_EQ(decode(Codec::kPlanesZstd, kKeys, std::span(out).first(bytes), decoded, second),
            Status::kOk);
  EXPECT_TRUE(rows == decoded);
}

}  // namespace
}  // namespace nearkv::test
