// quantise_groups, quantise_codes and dequantise: blocks are the host library's, byte for byte, and
// what it refuses is refused.
#include "kernels.hpp"
#include "lossy_blocks.hpp"

namespace nearkv::opencl_test {
namespace {

using Bytes = std::vector<std::byte>;

class QuantiseTest : public KernelsTest {
 protected:
  struct Blocks {
    Bytes bytes;
    std::vector<std::int32_t> is_good;
  };

  /// Blocks of rows, one after the other, all of one shape.
  Blocks encoded(Codec codec, const BlockShape& shape, const std::vector<test::Words>& rows) {
    test::Words words;
    for (const test::Words& block : rows) words.insert(words.end(), block.begin(), block.end());
    const std::size_t groups = shape.tensor == Tensor::kKeys ? shape.dim : kBlockTokens;
    const std::size_t row_bytes = codec == Codec::kInt4 ? shape.dim / 2U : shape.dim;
    const std::size_t size = rows.size() * encoded_bound(codec, shape);
    const cl::Buffer of_rows = runtime_->upload<std::uint16_t>(words);
    const cl::Buffer blocks = runtime_->allocate(size);
    const cl::Buffer is_good =
        runtime_->upload<std::int32_t>(std::vector<std::int32_t>(rows.size(), 1));
    runtime_->run("quantise_groups", cl::NDRange(groups, rows.size()), of_rows, cl_int(codec),
                  per_channel(shape), cl_uint{shape.dim}, blocks, is_good);
    runtime_->run("quantise_codes", cl::NDRange(row_bytes, kBlockTokens * rows.size()), of_rows,
                  cl_int(codec), per_channel(shape), cl_uint{shape.dim}, blocks);
    return {.bytes = downloaded<std::byte>(blocks, size),
            .is_good = downloaded<std::int32_t>(is_good, rows.size())};
  }

  Blocks decoded(Codec codec, const BlockShape& shape, const Bytes& blocks, std::size_t count) {
    const std::size_t size = count * block_bytes(shape);
    const cl::Buffer rows = runtime_->allocate(size);
    const cl::Buffer is_good = runtime_->upload<std::int32_t>(std::vector<std::int32_t>(count, 1));
    runtime_->run("dequantise", cl::NDRange(shape.dim, kBlockTokens * count),
                  runtime_->upload<std::byte>(blocks), cl_int(codec), per_channel(shape),
                  cl_uint{shape.dim}, rows, is_good);
    return {.bytes = downloaded<std::byte>(rows, size),
            .is_good = downloaded<std::int32_t>(is_good, count)};
  }

  /// Encodes blocks at once, then decodes what came out. Returns how many the host library takes.
  unsigned expect_hosts(Codec codec, const BlockShape& shape,
                        const std::vector<test::Words>& rows) {
    const Blocks blocks = encoded(codec, shape, rows);
    const std::size_t size = encoded_bound(codec, shape);
    unsigned taken = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto expected = test::encoded_by_host(codec, shape, test::to_rows(shape, rows[i]));
      EXPECT_EQ(blocks.is_good[i] != 0, expected.has_value()) << "block " << i;
      if (!expected) continue;
      ++taken;
      EXPECT_TRUE(std::equal(expected->begin(), expected->end(), &blocks.bytes[i * size]))
          << "block " << i;
    }
    expect_decodes_alike(codec, shape, blocks.bytes, rows.size());
    return taken;
  }

  void expect_decodes_alike(Codec codec, const BlockShape& shape, const Bytes& blocks,
                            std::size_t count) {
    const std::size_t size = encoded_bound(codec, shape);
    const Blocks rows = decoded(codec, shape, blocks, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto expected =
          test::decoded_by_host(codec, shape, std::span(blocks).subspan(i * size, size));
      EXPECT_EQ(rows.is_good[i] != 0, expected.has_value()) << "block " << i;
      if (!expected) continue;
      EXPECT_TRUE(
          std::equal(expected->begin(), expected->end(), &rows.bytes[i * block_bytes(shape)]))
          << "block " << i;
    }
  }

 private:
  static cl_int per_channel(const BlockShape& shape) {
    return shape.tensor == Tensor::kKeys ? 1 : 0;
  }
};

TEST_F(QuantiseTest, EveryShapeAndDistribution) {
  std::uint32_t seed = 0;
  unsigned taken = 0;
  for (const Codec codec : test::kLossyCodecs) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      for (const std::uint16_t dim : test::kDims) {
        const BlockShape shape{.tensor = tensor, .dtype = RowDtype::kBf16, .dim = dim};
        SCOPED_TRACE(test::describe(codec, shape));
        std::vector<test::Words> rows;
        for (const auto distribution : test::kDistributions) {
          rows.push_back(test::make_block(distribution, dim, ++seed));
        }
        taken += expect_hosts(codec, shape, rows);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(taken, seed / 2);
  EXPECT_LT(taken, seed);
}

TEST_F(QuantiseTest, GroupsOfTinyAndOddElements) {
  test::Random random = test::case_random(1);
  for (const Codec codec : test::kLossyCodecs) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      const BlockShape shape{.tensor = tensor, .dtype = RowDtype::kBf16, .dim = 32};
      SCOPED_TRACE(test::describe(codec, shape));
      std::vector<test::Words> rows;
      for (unsigned round = 0; round < 40; ++round) {
        rows.push_back(test::tiny_words(shape.dim, round, random));
        rows.push_back(test::words_with_one_odd(shape.dim, round, random));
      }
      expect_hosts(codec, shape, rows);
    }
  }
}

// Three elements a group, of magnitudes far apart and near: differences and quotients that round in
// every way.
TEST_F(QuantiseTest, GroupsOfAnyThreeElements) {
  test::Random random = test::case_random(2);
  for (const Codec codec : test::kLossyCodecs) {
    const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = 128};
    SCOPED_TRACE(test::describe(codec, shape));
    std::vector<test::Words> rows;
    for (const std::uint32_t range : {0x100U, 0x400U, 0x1000U, 0x2000U, 0x7E80U}) {
      for (unsigned round = 0; round < 10; ++round) {
        const std::uint32_t least = test::pick(random, 0, 0x7E80 - range);
        test::Words of_channels(std::size_t{3} * shape.dim);
        for (std::uint16_t& word : of_channels) {
          const auto sign = static_cast<std::uint32_t>(random() % 2 << 15);
          word = static_cast<std::uint16_t>(sign | (least + random() % range));
        }
        test::Words words(kBlockTokens * shape.dim);
        for (std::size_t i = 0; i < words.size(); ++i) {
          words[i] = of_channels[random() % 3 * shape.dim + i % shape.dim];
        }
        rows.push_back(words);
      }
    }
    EXPECT_EQ(expect_hosts(codec, shape, rows), rows.size());
  }
}

TEST_F(QuantiseTest, AnyBytesAreDecodedAlikeOrRefused) {
  test::Random random = test::case_random(3);
  for (const Codec codec : test::kLossyCodecs) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      const BlockShape shape{.tensor = tensor,
                             .dtype = RowDtype::kBf16,
                             .dim = static_cast<std::uint16_t>(16 * test::pick(random, 1, 8))};
      SCOPED_TRACE(test::describe(codec, shape));
      Bytes blocks;
      constexpr unsigned kRounds = 40;
      for (unsigned round = 0; round < kRounds; ++round) {
        const Bytes block = test::any_bytes(encoded_bound(codec, shape), round, random);
        blocks.insert(blocks.end(), block.begin(), block.end());
      }
      expect_decodes_alike(codec, shape, blocks, kRounds);
    }
  }
}

// The greatest parameters that a decoder takes, whose products are infinite, and those beyond.
TEST_F(QuantiseTest, ParametersAtTheirLimitsAreDecodedAlikeOrRefused) {
  constexpr std::uint16_t kParameters[] = {0,      0x0001, 0x007f, 0x0080, 0x7E7F, 0x7E80,
                                           0x7E81, 0x7F80, 0x8000, 0x8080, 0xFE7F, 0xFE80};
  test::Random random = test::case_random(4);
  const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = 16};
  const std::size_t codes_at = std::size_t{4} * shape.dim;
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    SCOPED_TRACE(test::describe(codec, shape));
    Bytes blocks;
    for (const std::uint16_t zero : kParameters) {
      for (const std::uint16_t scale : kParameters) {
        Bytes block = test::any_bytes(encoded_bound(codec, shape), 0, random);
        std::fill_n(block.begin(), codes_at, std::byte{0});
        const std::uint16_t group[] = {zero, scale};
        std::ranges::copy(std::as_bytes(std::span(group)), block.begin());
        blocks.insert(blocks.end(), block.begin(), block.end());
      }
    }
    expect_decodes_alike(codec, shape, blocks, std::size(kParameters) * std::size(kParameters));
  }
}

}  // namespace
}  // namespace nearkv::opencl_test
