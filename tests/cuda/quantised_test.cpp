// Blocks of the quantising codecs, against the library's own decoder.
#include <array>
#include <functional>
#include <optional>
#include <random>

#include "codec/blocks.hpp"
#include "cuda/gpu.hpp"

namespace nearkv::test {
namespace {

struct Kind {
  Codec codec;
  Tensor tensor;
};

constexpr std::array kKinds{Kind{Codec::kInt8, Tensor::kKeys}, Kind{Codec::kInt8, Tensor::kValues},
                            Kind{Codec::kInt4, Tensor::kKeys}, Kind{Codec::kInt4, Tensor::kValues},
                            Kind{Codec::kFp8, Tensor::kKeys},  Kind{Codec::kFp8, Tensor::kValues}};

class QuantisedTest : public Gpu {
 protected:
  /// Rows of each block, and the fault.
  std::vector<Words> decoded(const Kind& kind, std::uint16_t dim,
                             const std::vector<std::vector<std::byte>>& blocks) {
    const std::size_t bytes = (blocks.front().size() + 15) / 16 * 16;
    const std::span<std::byte> encoded = room<std::byte>(blocks.size() * bytes);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::ranges::copy(blocks[i], encoded.begin() + static_cast<std::ptrdiff_t>(i * bytes));
    }
    const std::size_t elements = std::size_t{dim} * NKV_PAGE_TOKENS;
    const std::span<std::uint16_t> out = room<std::uint16_t>(blocks.size() * elements);
    nearkv_cuda_quantised_args work{};
    work.encoded = encoded.data();
    work.out = out.data();
    work.fault = fault_ = fault_word();
    work.block_bytes = bytes;
    work.blocks = static_cast<std::uint32_t>(blocks.size());
    work.dim = dim;
    work.codec = static_cast<std::uint32_t>(kind.codec);
    work.tensor = static_cast<std::uint32_t>(kind.tensor);
    EXPECT_EQ(nearkv_cuda_quantised(gpu_, &work, nullptr), NKV_STATUS_OK) << error();
    synchronize();
    std::vector<Words> rows;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto first = out.begin() + static_cast<std::ptrdiff_t>(i * elements);
      rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(elements));
    }
    return rows;
  }

  /// What the library makes of a block; nothing if it refuses.
  static std::optional<Words> expected(const Kind& kind, std::uint16_t dim,
                                       std::span<const std::byte> block) {
    const BlockShape shape{kind.tensor, RowDtype::kBf16, dim};
    std::vector<std::byte> rows(block_bytes(shape));
    CodecWorkspace workspace;
    if (decode(kind.codec, shape, block, rows, workspace) != Status::kOk) return std::nullopt;
    return to_words(rows);
  }

  std::uint64_t* fault_ = nullptr;
};

TEST_F(QuantisedTest, HasTheBitsOfTheLibrarysDecoder) {
  for (const Kind& kind : kKinds) {
    for (const std::uint16_t dim : std::initializer_list<std::uint16_t>{16, 80, 128, 576}) {
      SCOPED_TRACE(describe(kind.codec, {kind.tensor, RowDtype::kBf16, dim}));
      std::vector<std::vector<std::byte>> blocks;
      for (const Distribution distribution : kDistributions) {
        const Words words = make_block(distribution, dim, 3);
        if (!is_moderate(words)) continue;
        const BlockShape shape{kind.tensor, RowDtype::kBf16, dim};
        blocks.push_back(encode_block(kind.codec, shape, to_rows(shape, words)));
      }
      const std::vector<Words> rows = decoded(kind, dim, blocks);
      EXPECT_EQ(*fault_, ~std::uint64_t{0});
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_EQ(rows[i], expected(kind, dim, blocks[i])) << i;
      }
    }
  }
}

TEST_F(QuantisedTest, RandomBytesAreDecodedOrRefusedAlike) {
  std::mt19937 random(5);
  for (const Kind& kind : kKinds) {
    std::size_t refused = 0;
    for (int turn = 0; turn < 12; ++turn) {
      constexpr std::uint16_t kDim = 32;
      const BlockShape shape{kind.tensor, RowDtype::kBf16, kDim};
      std::vector<std::byte> block = encode_block(
          kind.codec, shape, to_rows(shape, make_block(Distribution::kGaussian, kDim, 1)));
      // Groups of any kind, or codes alone.
      const std::size_t first = turn % 2 == 0 ? 0 : block.size() / 3;
      for (std::size_t i = first; i < block.size(); ++i) {
        if (turn < 10 || random() % 64 == 0) block[i] = static_cast<std::byte>(random());
      }
      const std::vector<Words> rows = decoded(kind, kDim, {block});
      const std::optional<Words> exact = expected(kind, kDim, block);
      EXPECT_EQ(*fault_ == ~std::uint64_t{0}, exact.has_value());
      if (exact) {
        EXPECT_EQ(rows.front(), *exact);
      } else {
        EXPECT_EQ(*fault_, NKV_STATUS_CODEC_ERROR);
        ++refused;
      }
    }
    EXPECT_GT(refused, 0U);
  }
}

TEST_F(QuantisedTest, NamesTheFirstBlockThatIsDamaged) {
  constexpr std::uint16_t kDim = 16;
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, kDim};
  const std::vector<std::byte> good = encode_block(
      Codec::kFp8, shape, to_rows(shape, make_block(Distribution::kGaussian, kDim, 1)));
  std::vector<std::byte> damaged = good;
  damaged.back() = std::byte{0x7F};
  (void)decoded({Codec::kFp8, Tensor::kKeys}, kDim, {good, good, damaged, good, damaged});
  EXPECT_EQ(*fault_, std::uint64_t{2} << 8 | NKV_STATUS_CODEC_ERROR);
}

TEST_F(QuantisedTest, RefusesOtherCodecsAndSizes) {
  const std::span<std::byte> some = room<std::byte>(1 << 16);
  nearkv_cuda_quantised_args good{};
  good.encoded = some.data();
  good.out = some.data() + (1 << 15);
  good.fault = fault_word();
  good.block_bytes = 64 + 64 * 16;
  good.blocks = 1;
  good.dim = 16;
  good.codec = NKV_CODEC_INT8;
  const auto status = [&](const std::function<void(nearkv_cuda_quantised_args*)>& spoil) {
    nearkv_cuda_quantised_args work = good;
    spoil(&work);
    return int{nearkv_cuda_quantised(gpu_, &work, nullptr)};
  };
  using Work = nearkv_cuda_quantised_args;
  EXPECT_EQ(status([](Work*) {}), NKV_STATUS_OK) << error();
  EXPECT_EQ(status([](Work* w) { w->codec = NKV_CODEC_PLANES_LZ4; }), NKV_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(status([](Work* w) { w->codec = NKV_CODEC_NONE; }), NKV_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(status([](Work* w) { w->block_bytes -= 16; }), NKV_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(status([](Work* w) { w->block_bytes += 8; }), NKV_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(status([](Work* w) { w->dim = 40; }), NKV_STATUS_BAD_ARGUMENT);
  EXPECT_EQ(status([](Work* w) { w->tensor = NKV_TENSOR_BOTH; }), NKV_STATUS_BAD_ARGUMENT);
}

}  // namespace
}  // namespace nearkv::test
