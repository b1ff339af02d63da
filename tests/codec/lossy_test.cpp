// Lossy codecs keep the error that nearkv/codec.hpp states, decode as FORMATS.md says, and refuse
// what they cannot hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "blocks.hpp"
#include "page/elements.hpp"

namespace nearkv::test {
namespace {

struct LossyCase {
  Codec codec;
  Tensor tensor;

  [[nodiscard]] BlockShape shape(std::size_t dim) const {
    return {tensor, RowDtype::kBf16, static_cast<std::uint16_t>(dim)};
  }
  [[nodiscard]] std::size_t groups(std::size_t dim) const {
    return tensor == Tensor::kKeys ? dim : kBlockTokens;
  }
  [[nodiscard]] std::size_t group(std::size_t element, std::size_t dim) const {
    return tensor == Tensor::kKeys ? element % dim : element / dim;
  }
};

struct Extremes {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

double number(std::uint16_t bits) { return (bits & 0x7F80) == 0 ? 0 : double{from_bf16(bits)}; }

std::vector<Extremes> extremes(const LossyCase& c, const Words& words, std::size_t dim) {
  std::vector<Extremes> groups(c.groups(dim));
  for (std::size_t i = 0; i < words.size(); ++i) {
    Extremes& group = groups[c.group(i, dim)];
    group.low = std::min(group.low, number(words[i]));
    group.high = std::max(group.high, number(words[i]));
  }
  return groups;
}

double error_bound(Codec codec, const Extremes& group, double v, double result) {
  const double tiny = 0x1p-126;
  if (codec == Codec::kFp8) {
    const double greatest = std::max(std::abs(group.low), std::abs(group.high));
    return std::max(0x1p-4 * std::abs(v), 0x1p-17 * greatest) + tiny;
  }
  const double codes = codec == Codec::kInt8 ? 255 : 15;
  const double scale = std::max((group.high - group.low) / codes * (1 + 0x1p-7), tiny);
  return 0.501 * scale + 0x1p-8 * std::abs(result) + tiny;
}

class Lossy : public testing::TestWithParam<LossyCase> {
 protected:
  Words round_trip(std::size_t dim, const Words& words) {
    const BlockShape shape = GetParam().shape(dim);
    const auto encoded = encode_block(GetParam().codec, shape, to_rows(shape, words));
    std::vector<std::byte> rows(block_bytes(shape));
    EXPECT_EQ(decode(GetParam().codec, shape, encoded, rows, workspace_), Status::kOk);
    return to_words(rows);
  }

  Status try_encode(std::size_t dim, const Words& words) {
    const BlockShape shape = GetParam().shape(dim);
    std::vector<std::byte> out(encoded_bound(GetParam().codec, shape));
    std::size_t bytes = 0;
    return encode(GetParam().codec, shape, to_rows(shape, words), out, &bytes, workspace_);
  }

  CodecWorkspace workspace_;
};

TEST_P(Lossy, ErrorsStayWithinTheStatedBound) {
  for (const std::size_t dim : kDims) {
    for (const Distribution distribution : kDistributions) {
      for (std::uint32_t seed = 0; seed < 3; ++seed) {
        const Words words = make_block(distribution, dim, seed);
        if (!is_moderate(words)) continue;
        const Words result = round_trip(dim, words);
        const auto groups = extremes(GetParam(), words, dim);
        for (std::size_t i = 0; i < words.size(); ++i) {
          const double v = number(words[i]);
          const double back = from_bf16(result[i]);
          const Extremes& group = groups[GetParam().group(i, dim)];
          ASSERT_LE(std::abs(v - back), error_bound(GetParam().codec, group, v, back))
              << name(distribution) << " dim " << dim << " element " << i << " v " << v << " in "
              << group.low << ".." << group.high;
        }
      }
    }
  }
}

TEST_P(Lossy, SizeIsFixed) {
  for (const std::size_t dim : kDims) {
    const BlockShape shape = GetParam().shape(dim);
    const std::size_t parameters =
        GetParam().groups(dim) * (GetParam().codec == Codec::kFp8 ? 1 : 4);
    const std::size_t codes = kBlockTokens * dim / (GetParam().codec == Codec::kInt4 ? 2 : 1);
    const Words words = make_block(Distribution::kGaussian, dim, 1);
    EXPECT_EQ(encode_block(GetParam().codec, shape, to_rows(shape, words)).size(),
              parameters + codes);
    EXPECT_EQ(encoded_bound(GetParam().codec, shape), parameters + codes);
  }
}

TEST_P(Lossy, ZerosStayZeros) {
  const Words zeros(kBlockTokens * 64);
  EXPECT_EQ(round_trip(64, zeros), zeros);
}

TEST_P(Lossy, NonFiniteElementsAreRefused) {
  for (const std::uint16_t bits : std::array<std::uint16_t, 4>{0x7F80, 0xFF80, 0x7FC0, 0xFFFF}) {
    Words words = make_block(Distribution::kGaussian, 64, 1);
    words[1000] = bits;
    EXPECT_EQ(try_encode(64, words), Status::kBadArgument) << bits;
  }
}

TEST_P(Lossy, DecodingIsDefinedForEveryBlockOfTheRightSize) {
  const BlockShape shape = GetParam().shape(64);
  std::vector<std::byte> rows(block_bytes(shape));
  std::vector<std::byte> encoded(encoded_bound(GetParam().codec, shape));
  for (unsigned fill = 0; fill < 256; ++fill) {
    std::ranges::fill(encoded, static_cast<std::byte>(fill));
    const Status status = decode(GetParam().codec, shape, encoded, rows, workspace_);
    EXPECT_TRUE(status == Status::kOk || status == Status::kCodecError);
    EXPECT_EQ(decode(GetParam().codec, shape, std::span(encoded).first(encoded.size() - 1), rows,
                     workspace_),
              Status::kCodecError);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Lossy, testing::ValuesIn([] {
      std::vector<LossyCase> cases;
      for (const Codec codec : {Codec::kInt8, Codec::kInt4, Codec::kFp8}) {
        for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues})
          cases.push_back({codec, tensor});
      }
      return cases;
    }()),
    [](const auto& test) {
      return std::string(name(test.param.codec)).append("_").append(name(test.param.tensor));
    });

TEST(Affine, ConstantGroupsAreExact) {
  const Words words = make_block(Distribution::kConstantChannels, 64, 1);
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, 64};
  CodecWorkspace workspace;
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    std::vector<std::byte> rows(block_bytes(shape));
    ASSERT_EQ(
        decode(codec, shape, encode_block(codec, shape, to_rows(shape, words)), rows, workspace),
        Status::kOk);
    EXPECT_EQ(to_words(rows), words);
  }
}

TEST(Affine, ElementsFromTwoToThe126OnAreRefused) {
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, 64};
  CodecWorkspace workspace;
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    std::vector<std::byte> out(encoded_bound(codec, shape));
    std::size_t bytes = 0;
    Words words(kBlockTokens * 64, 0x3F80);
    words[9] = 0x7E7F;
    EXPECT_EQ(encode(codec, shape, to_rows(shape, words), out, &bytes, workspace), Status::kOk);
    words[9] = 0xFE80;
    EXPECT_EQ(encode(codec, shape, to_rows(shape, words), out, &bytes, workspace),
              Status::kBadArgument);
  }
}

// zero + code * scale, by hand, for both tensors.
TEST(Affine, DecodesAsSpecified) {
  constexpr std::size_t kDim = 32;
  CodecWorkspace workspace;
  for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
    for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
      const LossyCase c{codec, tensor};
      const BlockShape shape = c.shape(kDim);
      const auto encoded =
          encode_block(codec, shape, to_rows(shape, make_block(Distribution::kBiased, kDim, 2)));
      std::vector<std::byte> rows(block_bytes(shape));
      ASSERT_EQ(decode(codec, shape, encoded, rows, workspace), Status::kOk);
      const Words words = to_words(rows);
      const std::byte* const codes = encoded.data() + 4 * c.groups(kDim);
      for (std::size_t i = 0; i < words.size(); ++i) {
        std::array<std::uint16_t, 2> parameters{};
        std::memcpy(parameters.data(), encoded.data() + 4 * c.group(i, kDim), sizeof parameters);
        const std::size_t channel = i % kDim;
        const unsigned code =
            codec == Codec::kInt8
                ? std::to_integer<unsigned>(codes[i])
                : std::to_integer<unsigned>(codes[i / kDim * kDim / 2 + channel % (kDim / 2)]) >>
                          (channel < kDim / 2 ? 0 : 4) &
                      0xF;
        const float expected =
            from_bf16(parameters[0]) + static_cast<float>(code) * from_bf16(parameters[1]);
        ASSERT_EQ(words[i], to_bf16(expected));
      }
    }
  }
}

// Every code under every scale, against the definition of E4M3.
TEST(Fp8, DecodesAsSpecified) {
  constexpr std::size_t kDim = 256;
  const BlockShape shape{Tensor::kValues, RowDtype::kBf16, kDim};
  CodecWorkspace workspace;
  for (unsigned first = 0; first < 256; first += kBlockTokens) {
    std::vector<std::byte> encoded(encoded_bound(Codec::kFp8, shape));
    for (unsigned t = 0; t < kBlockTokens; ++t) {
      encoded[t] = static_cast<std::byte>(first + t);
      for (unsigned c = 0; c < kDim; ++c) {
        const bool nan = (c & 0x7F) == 0x7F;
        encoded[kBlockTokens + t * kDim + c] = static_cast<std::byte>(nan ? 0 : c);
      }
    }
    std::vector<std::byte> rows(block_bytes(shape));
    ASSERT_EQ(decode(Codec::kFp8, shape, encoded, rows, workspace), Status::kOk);
    const Words words = to_words(rows);
    for (unsigned t = 0; t < kBlockTokens; ++t) {
      for (unsigned c = 0; c < kDim; ++c) {
        if ((c & 0x7F) == 0x7F) continue;
        const double code = from_e4m3(static_cast<std::uint8_t>(c));
        double expected = std::ldexp(code, static_cast<int>(first + t) - 135);
        if (std::abs(expected) < 0x1p-126) expected = std::copysign(0, expected);
        expected = std::clamp(expected, -0x1.FEp127, 0x1.FEp127);
        ASSERT_EQ(std::bit_cast<std::uint64_t>(double{from_bf16(words[t * kDim + c])}),
                  std::bit_cast<std::uint64_t>(expected))
            << "code " << c << " scale " << first + t;
      }
    }
    encoded[kBlockTokens] = std::byte{0x7F};
    EXPECT_EQ(decode(Codec::kFp8, shape, encoded, rows, workspace), Status::kCodecError);
  }
}

// No code is nearer than the one chosen, ties have an even code, and no smaller scale would do.
TEST(Fp8, EncodesTheNearestCodeUnderTheSmallestScale) {
  constexpr std::size_t kDim = 64;
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, kDim};
  for (const Distribution distribution :
       {Distribution::kGaussian, Distribution::kWideExponents, Distribution::kHuge}) {
    const Words words = make_block(distribution, kDim, 3);
    const auto encoded = encode_block(Codec::kFp8, shape, to_rows(shape, words));
    const auto groups = extremes({Codec::kFp8, Tensor::kKeys}, words, kDim);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const int x = std::to_integer<int>(encoded[i % kDim]) - 135;
      const auto code = std::to_integer<std::uint8_t>(encoded[kDim + i]);
      const Extremes& group = groups[i % kDim];
      const double greatest = std::max(std::abs(group.low), std::abs(group.high));
      ASSERT_LE(greatest, std::ldexp(448, x));
      ASSERT_GT(greatest, std::ldexp(448, x - 1));
      const double v = std::abs(std::ldexp(number(words[i]), -x));
      const auto distance = [v](unsigned candidate) {
        return std::abs(v - double{from_e4m3(static_cast<std::uint8_t>(candidate))});
      };
      const unsigned magnitude = code & 0x7FU;
      ASSERT_EQ(code >> 7, words[i] >> 15);
      for (unsigned candidate = magnitude == 0 ? 0 : magnitude - 1;
           candidate <= std::min(magnitude + 1, 0x7EU); ++candidate) {
        ASSERT_LE(distance(magnitude), distance(candidate));
        if (candidate != magnitude && distance(magnitude) == distance(candidate)) {
          ASSERT_EQ(magnitude % 2, 0U);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::test
