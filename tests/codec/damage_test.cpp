// Damaged blocks: decode() ends with a status, whatever the bytes are. Run under the sanitizers,
// these also show that it stays inside its spans.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "blocks.hpp"

namespace nearkv::test {
namespace {

constexpr int kCasesPerShape = 400;

struct DamageCase {
  Codec codec;
  BlockShape shape;
};

std::vector<DamageCase> damage_cases() {
  std::vector<DamageCase> cases;
  for (const Codec codec : {Codec::kNone, Codec::kPlanesLz4, Codec::kPlanesZstd, Codec::kInt8,
                            Codec::kInt4, Codec::kFp8}) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      for (const RowDtype dtype : {RowDtype::kBf16, RowDtype::kFp16, RowDtype::kFp8E4m3,
                                   RowDtype::kFp8E5m2, RowDtype::kInt8}) {
        for (const std::uint16_t dim : std::array<std::uint16_t, 2>{16, 80}) {
          const BlockShape shape{tensor, dtype, dim};
          if (codec_supports(codec, shape)) cases.push_back({codec, shape});
        }
      }
    }
  }
  return cases;
}

class Damage : public testing::TestWithParam<DamageCase> {
 protected:
  using Bytes = std::vector<std::byte>;

  void SetUp() override {
    for (const Distribution distribution :
         {Distribution::kGaussian, Distribution::kSparse, Distribution::kBiased}) {
      const auto words = make_block(distribution, GetParam().shape.dim, 1);
      intact_.push_back(
          encode_block(GetParam().codec, GetParam().shape, to_rows(GetParam().shape, words)));
    }
  }

  // Copies, so that a read past the end leaves the allocation.
  Status decode_copy(std::span<const std::byte> bytes) {
    const Bytes copy(bytes.begin(), bytes.end());
    return decode(GetParam().codec, GetParam().shape, copy, rows_, workspace_);
  }

  void expect_defined(std::span<const std::byte> bytes) {
    const Status status = decode_copy(bytes);
    ASSERT_TRUE(status == Status::kOk || status == Status::kCodecError) << static_cast<int>(status);
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }
  Bytes pick() { return intact_[below(intact_.size())]; }

  std::vector<Bytes> intact_;
  Bytes rows_ = Bytes(block_bytes(GetParam().shape));
  CodecWorkspace workspace_;
  std::mt19937 random_{1};
};

TEST_P(Damage, TruncatedAndExtendedBlocksAreRefused) {
  for (int i = 0; i < kCasesPerShape; ++i) {
    Bytes bytes = pick();
    ASSERT_EQ(decode_copy(std::span(bytes).first(below(bytes.size()))), Status::kCodecError);
    bytes.resize(bytes.size() + 1 + below(64));
    ASSERT_EQ(decode_copy(bytes), Status::kCodecError);
  }
}

TEST_P(Damage, FlippedBitsAreHarmless) {
  for (int i = 0; i < kCasesPerShape; ++i) {
    Bytes bytes = pick();
    // Half of the flips hit the first bytes, where sizes and parameters are.
    const std::size_t reach =
        below(2) == 0 ? std::min<std::size_t>(bytes.size(), 64) : bytes.size();
    for (std::size_t flips = 1 + below(4); flips > 0; --flips) {
      bytes[below(reach)] ^= static_cast<std::byte>(1U << below(8));
    }
    expect_defined(bytes);
  }
}

TEST_P(Damage, RandomBytesAreHarmless) {
  const std::size_t bound = encoded_bound(GetParam().codec, GetParam().shape);
  for (int i = 0; i < kCasesPerShape / 2; ++i) {
    Bytes bytes(below(bound + 64));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    expect_defined(bytes);
  }
}

// Random bytes behind an intact head get past the first checks.
TEST_P(Damage, RandomTailsAreHarmless) {
  for (int i = 0; i < kCasesPerShape; ++i) {
    Bytes bytes = pick();
    for (std::size_t at = below(bytes.size()); at < bytes.size(); ++at) {
      bytes[at] = static_cast<std::byte>(random_());
    }
    expect_defined(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(, Damage, testing::ValuesIn(damage_cases()), [](const auto& test) {
  return describe(test.param.codec, test.param.shape);
});

}  // namespace
}  // namespace nearkv::test
