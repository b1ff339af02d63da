// nearkv_quantise and nearkv_dequantise: blocks are the host library's, byte for byte, and what it
// refuses is refused. Once more with subnormal numbers flushed to zero, as Vitis has them.
#include "kernels/quantise.hpp"

#include <gtest/gtest.h>

#include <optional>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernel_list.hpp"
#include "lossy_blocks.hpp"

namespace nearkv::hls_test {
namespace {

using Bytes = std::vector<std::byte>;

using test::kLossyCodecs;

// Flushes subnormal operands and results to zero while it lives.
class FlushesSubnormals {
 public:
  explicit FlushesSubnormals(bool flushes) {
#if defined(__x86_64__)
    constexpr unsigned kFlushAndTreatAsZero = 0x8040;
    if (flushes) _mm_setcsr(before_ | kFlushAndTreatAsZero);
#else
    static_cast<void>(flushes);
#endif
  }
  ~FlushesSubnormals() {
#if defined(__x86_64__)
    _mm_setcsr(before_);
#endif
  }
  FlushesSubnormals(const FlushesSubnormals&) = delete;
  FlushesSubnormals& operator=(const FlushesSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  unsigned before_ = _mm_getcsr();
#endif
};

kernels::QuantShape kernel_shape(Codec codec, const BlockShape& shape) {
  return {.codec = static_cast<std::uint8_t>(codec),
          .per_channel = shape.tensor == Tensor::kKeys,
          .channels = shape.dim};
}

std::optional<Bytes> encoded(Codec codec, const BlockShape& shape, const Bytes& rows,
                             bool flushes) {
  const kernels::QuantShape kernel = kernel_shape(codec, shape);
  const Bursts in = to_bursts(rows);
  const auto size = static_cast<std::size_t>(kernels::quant_bytes(kernel));
  Bursts out(size / NKV_BURST_BYTES + 1);
  const FlushesSubnormals scope(flushes);
  if (!nearkv_quantise(in.data(), kernel, out.data())) return std::nullopt;
  return to_bytes(out, size);
}

std::optional<Bytes> decoded(Codec codec, const BlockShape& shape, const Bytes& block,
                             bool flushes) {
  const Bursts in = to_bursts(block);
  const std::size_t size = block_bytes(shape);
  Bursts out(size / NKV_BURST_BYTES);
  const FlushesSubnormals scope(flushes);
  if (!nearkv_dequantise(in.data(), kernel_shape(codec, shape), out.data())) return std::nullopt;
  return to_bytes(out, size);
}

// Whether the host library takes the rows.
bool expect_hosts(Codec codec, const BlockShape& shape, const test::Words& words) {
  const Bytes rows = test::to_rows(shape, words);
  const auto expected = test::encoded_by_host(codec, shape, rows);
  for (const bool flushes : {false, true}) {
    const auto block = encoded(codec, shape, rows, flushes);
    EXPECT_EQ(block.has_value(), expected.has_value());
    if (!block || !expected) continue;
    EXPECT_TRUE(*block == *expected) << "flushes " << flushes;
    EXPECT_TRUE(decoded(codec, shape, *block, flushes) ==
                test::decoded_by_host(codec, shape, *block))
        << "flushes " << flushes;
  }
  return expected.has_value();
}

TEST(QuantiseTest, EveryShapeAndDistribution) {
  std::uint32_t seed = 0;
  unsigned taken = 0;
  for (const Codec codec : kLossyCodecs) {
    for (const Tensor tensor : {Tensor::kKeys, Tensor::kValues}) {
      for (std::uint16_t dim = 16; dim <= 128; dim = static_cast<std::uint16_t>(dim + 16)) {
        for (const auto distribution : test::kDistributions) {
          const BlockShape shape{.tensor = tensor, .dtype = RowDtype::kBf16, .dim = dim};
          SCOPED_TRACE(test::describe(codec, shape) + " " + std::string(test::name(distribution)));
          taken += expect_hosts(codec, shape, test::make_block(distribution, dim, ++seed)) ? 1 : 0;
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(taken, seed / 2);
  EXPECT_LT(taken, seed);
}

TEST(QuantiseTest, GroupsOfTinyElements) {
  test::Random random = test::case_random(1);
  for (unsigned round = 0; round < 40; ++round) {
    const BlockShape shape{.tensor = round % 2 == 0 ? Tensor::kKeys : Tensor::kValues,
                           .dtype = RowDtype::kBf16,
                           .dim = 32};
    const test::Words words = test::tiny_words(shape.dim, round, random);
    for (const Codec codec : kLossyCodecs) {
      SCOPED_TRACE(testing::Message() << "round " << round);
      expect_hosts(codec, shape, words);
      if (HasFailure()) return;
    }
  }
}

TEST(QuantiseTest, OneElementIsRefused) {
  test::Random random = test::case_random(2);
  for (unsigned round = 0; round < 36; ++round) {
    const BlockShape shape{.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = 48};
    expect_hosts(kLossyCodecs[round / 6 % 3], shape,
                 test::words_with_one_odd(shape.dim, round, random));
    if (HasFailure()) return;
  }
}

// Any bytes: refused alike, or decoded alike.
TEST(DequantiseTest, AnyBytes) {
  test::Random random = test::case_random(3);
  for (unsigned round = 0; round < 120; ++round) {
    const Codec codec = kLossyCodecs[round % 3];
    const BlockShape shape{.tensor = round % 2 == 0 ? Tensor::kKeys : Tensor::kValues,
                           .dtype = RowDtype::kBf16,
                           .dim = static_cast<std::uint16_t>(16 * test::pick(random, 1, 8))};
    const auto size = static_cast<std::size_t>(kernels::quant_bytes(kernel_shape(codec, shape)));
    const Bytes block = test::any_bytes(size, round, random);
    SCOPED_TRACE(testing::Message() << "round " << round << ' ' << test::describe(codec, shape));
    for (const bool flushes : {false, true}) {
      EXPECT_TRUE(decoded(codec, shape, block, flushes) ==
                  test::decoded_by_host(codec, shape, block));
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::hls_test
