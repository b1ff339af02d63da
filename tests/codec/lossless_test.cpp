// Lossless codecs give every bit back, whatever the pattern, the shape or the distribution.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "blocks.hpp"

namespace nearkv::test {
namespace {

struct LosslessCase {
  Codec codec;
  Tensor tensor;
  RowDtype dtype;

  [[nodiscard]] BlockShape shape(std::size_t dim) const {
    return {tensor, dtype, static_cast<std::uint16_t>(dim)};
  }
};

std::ostream& operator<<(std::ostream& out, const LosslessCase& c) {
  return out << describe(c.codec, c.shape(128));
}

std::vector<LosslessCase> lossless_cases() {
  std::vector<LosslessCase> cases;
  for (const Codec codec : {Codec::kNone, Codec::kPlanesLz4, Codec::kPlanesZstd}) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      for (const RowDtype dtype : {RowDtype::kBf16, RowDtype::kFp16, RowDtype::kFp8E4m3,
                                   RowDtype::kFp8E5m2, RowDtype::kInt8}) {
        const LosslessCase candidate{codec, tensor, dtype};
        if (codec_supports(codec, candidate.shape(128))) cases.push_back(candidate);
      }
    }
  }
  return cases;
}

class Lossless : public testing::TestWithParam<LosslessCase> {
 protected:
  void expect_round_trip(std::size_t dim, const Words& words) {
    const BlockShape shape = GetParam().shape(dim);
    const auto rows = to_rows(shape, words);
    std::vector<std::byte> encoded(encoded_bound(GetParam().codec, shape));
    std::size_t encoded_bytes = 0;
    ASSERT_EQ(encode(GetParam().codec, shape, rows, encoded, &encoded_bytes, workspace_),
              Status::kOk);
    ASSERT_LE(encoded_bytes, encoded.size());
    std::vector<std::byte> decoded(rows.size());
    ASSERT_EQ(decode(GetParam().codec, shape, std::span(encoded).first(encoded_bytes), decoded,
                     workspace_),
              Status::kOk);
    EXPECT_TRUE(rows == decoded);
  }

  // Cuts the patterns into blocks; the last one is filled up with the first patterns.
  void expect_patterns_round_trip(std::size_t dim, const Words& patterns, bool channel_major) {
    const std::size_t elements = kBlockTokens * dim;
    for (std::size_t begin = 0; begin < patterns.size(); begin += elements) {
      Words words(elements);
      for (std::size_t i = 0; i < elements; ++i) {
        const std::size_t at = channel_major ? i % kBlockTokens * dim + i / kBlockTokens : i;
        words[at] = patterns[(begin + i) % patterns.size()];
      }
      expect_round_trip(dim, words);
    }
  }

  CodecWorkspace workspace_;
};

TEST_P(Lossless, EveryPatternSurvivesInAnyCompany) {
  Words patterns(1 << 16);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  for (const std::size_t dim : kDims) {
    SCOPED_TRACE(dim);
    expect_patterns_round_trip(dim, patterns, false);
    expect_patterns_round_trip(dim, patterns, true);
  }
  std::shuffle(patterns.begin(), patterns.end(), std::mt19937(1));
  for (const std::size_t dim : kDims) {
    SCOPED_TRACE(dim);
    expect_patterns_round_trip(dim, patterns, false);
  }
}

TEST_P(Lossless, EveryDistributionSurvivesInEveryWidth) {
  for (const std::size_t dim : kDims) {
    for (const Distribution distribution : kDistributions) {
      for (std::uint32_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(testing::Message()
                     << name(distribution) << " dim " << dim << " seed " << seed);
        expect_round_trip(dim, make_block(distribution, dim, seed));
      }
    }
  }
}

// One element that differs from the rest of a constant block, at every place of a narrow block.
TEST_P(Lossless, ASingleOutlierSurvivesEverywhere) {
  constexpr std::size_t kDim = 16;
  for (const std::uint16_t outlier :
       std::array<std::uint16_t, 7>{0x0000, 0x8000, 0x0001, 0x7F80, 0x7FC1, 0xFF7F, 0x3F81}) {
    for (std::size_t place = 0; place < kBlockTokens * kDim; ++place) {
      Words words(kBlockTokens * kDim, 0x3F80);
      words[place] = outlier;
      expect_round_trip(kDim, words);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Lossless, testing::ValuesIn(lossless_cases()), [](const auto& test) {
  return std::string(name(test.param.codec))
      .append("_")
      .append(name(test.param.tensor))
      .append("_")
      .append(name(test.param.dtype));
});

// What the codecs are for.
TEST(CompressionRatio, HoldsOnGaussianRows) {
  const auto rows_of = [](const BlockShape& shape) {
    return to_rows(shape, make_block(Distribution::kGaussian, shape.dim, 7));
  };
  const auto ratio = [&](Codec codec, const BlockShape& shape) {
    const auto rows = rows_of(shape);
    return static_cast<double>(encode_block(codec, shape, rows).size()) /
           static_cast<double>(rows.size());
  };
  const BlockShape keys{Tensor::kKeys, RowDtype::kBf16, 128};
  EXPECT_LE(ratio(Codec::kPlanesZstd, keys), 0.70);
  EXPECT_LE(ratio(Codec::kPlanesLz4, keys), 0.73);
}

}  // namespace
}  // namespace nearkv::test
