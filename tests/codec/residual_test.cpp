// RESIDUAL as FORMATS.md has it: a literal, slow decoder written from that page reads what the
// encoder wrote, one token at a time, and the parts that a page shares with its encoded form are
// the same.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "blocks.hpp"
#include "codec/digest.hpp"

namespace nearkv::test {
namespace {

class SlowResidual {
 public:
  SlowResidual(std::span<const std::byte> block, std::size_t dim) : block_(block), dim_(dim) {}

  [[nodiscard]] int k_step_exponent() const { return static_cast<std::int16_t>(u16(0)); }
  [[nodiscard]] bool is_raw(std::size_t token) const { return u8(8 + token / 8) >> token % 8 & 1; }
  [[nodiscard]] std::size_t digest() const { return 16; }
  [[nodiscard]] std::size_t planes() const { return digest() + 2 * dim_; }
  [[nodiscard]] std::size_t nibbles() const { return planes() + 32 * dim_; }
  [[nodiscard]] std::size_t stream_ends() const { return nibbles() + 32 * dim_; }
  [[nodiscard]] std::size_t streams() const { return stream_ends() + 128; }
  [[nodiscard]] std::size_t stream_begin(std::size_t token) const {
    return streams() + (token == 0 ? 0 : std::size_t{2} * u16(stream_ends() + 2 * (token - 1)));
  }
  [[nodiscard]] std::size_t stream_end(std::size_t token) const {
    return streams() + std::size_t{2} * u16(stream_ends() + 2 * token);
  }

  [[nodiscard]] unsigned code(std::size_t token, std::size_t c) const {
    unsigned code = 0;
    for (std::size_t p = 0; p < 4; ++p) {
      const unsigned byte = u8(planes() + 8 * dim_ * p + token * dim_ / 8 + c / 8);
      code |= (byte >> c % 8 & 1) << (7 - p);
    }
    const std::size_t half = dim_ / 2;
    const unsigned pair = u8(nibbles() + token * half + c % half);
    return code | (c < half ? pair & 0xF : pair >> 4);
  }

  [[nodiscard]] Words row(std::size_t token) const {
    Words row(dim_);
    const std::size_t begin = stream_begin(token);
    if (is_raw(token)) {
      std::memcpy(row.data(), block_.data() + begin, 2 * dim_);
      return row;
    }
    std::size_t position = 8 * begin;
    const auto read = [&](int count) {
      unsigned value = 0;
      for (int i = 0; i < count; ++i, ++position) {
        value |= (u8(position / 8) >> position % 8 & 1) << i;
      }
      return value;
    };
    struct ZeroCell {
      std::size_t channel;
      unsigned g;
      bool negative;
      double unit;
    };
    std::vector<ZeroCell> zero_cells;
    for (std::size_t c = 0; c < dim_; ++c) {
      const auto entry = u16(digest() + 2 * c);
      const int base = ((entry & 0xFF) ^ 0x80) - 0x80;
      const int m = 8 + (entry >> 8 & 7);
      const int s = k_step_exponent() - (entry >> 11);
      const double unit = std::ldexp(1, s - 4);
      const int idx = 4 * base + static_cast<int>(code(token, c));
      const int lower = idx * m;
      const int a = std::max(lower, -lower - m);
      if (a > 0) {
        const int k = std::clamp(static_cast<int>(std::floor(std::log2(a))) - 3, 0, 8);
        const unsigned known = static_cast<unsigned>(-16 * lower) & ((1U << k) - 1);
        const unsigned f = read(8 - k) << k | known;
        row[c] = exact_bf16((16 * lower + static_cast<int>(f)) * unit);
      } else {
        zero_cells.push_back({c, read(8), idx < 0, unit});
      }
    }
    for (const ZeroCell& cell : zero_cells) {
      if (cell.g == 255) {
        row[cell.channel] = 0;
      } else if (cell.g == 0) {
        row[cell.channel] = static_cast<std::uint16_t>(read(16));
      } else {
        const int n = std::max(0, 7 - static_cast<int>(std::floor(std::log2(cell.g))));
        const double units = cell.g + std::ldexp(read(n), -n);
        row[cell.channel] = exact_bf16((cell.negative ? -units : units) * cell.unit);
      }
    }
    EXPECT_EQ((position + 15) / 16 * 2, stream_end(token));
    return row;
  }

 private:
  static std::uint16_t exact_bf16(double v) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
    EXPECT_EQ(bits & 0xFFFF, 0U) << v;
    return static_cast<std::uint16_t>(bits >> 16);
  }
  [[nodiscard]] unsigned u8(std::size_t at) const { return std::to_integer<unsigned>(block_[at]); }
  [[nodiscard]] std::uint16_t u16(std::size_t at) const {
    return static_cast<std::uint16_t>(u8(at) | u8(at + 1) << 8);
  }

  std::span<const std::byte> block_;
  std::size_t dim_;
};

struct EncodedKeys {
  EncodedKeys(Distribution distribution, std::size_t block_dim, std::uint32_t seed)
      : dim(block_dim),
        words(make_block(distribution, dim, seed)),
        bytes(encode_block(Codec::kResidual, shape(), to_rows(shape(), words))) {}

  [[nodiscard]] BlockShape shape() const {
    return {Tensor::kKeys, RowDtype::kBf16, static_cast<std::uint16_t>(dim)};
  }
  [[nodiscard]] SlowResidual slow() const { return {bytes, dim}; }

  std::size_t dim;
  Words words;
  std::vector<std::byte> bytes;
};

TEST(Residual, IsReadByTheDecoderOfTheSpecification) {
  for (const std::size_t dim : kDims) {
    for (const Distribution distribution : kDistributions) {
      SCOPED_TRACE(testing::Message() << name(distribution) << " dim " << dim);
      const EncodedKeys keys(distribution, dim, 1);
      for (std::size_t token = 0; token < kBlockTokens; ++token) {
        const auto row = std::span(keys.words).subspan(token * dim, dim);
        ASSERT_TRUE(std::ranges::equal(keys.slow().row(token), row)) << "token " << token;
      }
      EXPECT_EQ(keys.slow().stream_end(kBlockTokens - 1), keys.bytes.size());
    }
  }
}

TEST(Residual, HoldsThePagesDigestAndCodes) {
  for (const Distribution distribution : kDistributions) {
    const EncodedKeys keys(distribution, 96, 2);
    std::vector<codec::ChannelStep> steps(keys.dim);
    const int k_step_exponent = codec::key_digest(keys.words, steps);
    std::vector<std::uint8_t> codes(keys.words.size());
    codec::key_codes(keys.words, steps, codes);
    EXPECT_EQ(keys.slow().k_step_exponent(), k_step_exponent);
    for (std::size_t c = 0; c < keys.dim; ++c) {
      std::uint16_t entry = 0;
      std::memcpy(&entry, keys.bytes.data() + keys.slow().digest() + 2 * c, sizeof entry);
      ASSERT_EQ(entry, codec::pack_step(steps[c], k_step_exponent));
    }
    for (std::size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(keys.slow().code(i / keys.dim, i % keys.dim), codes[i]);
    }
  }
}

TEST(Residual, OnlyTokensWithNonFiniteKeysAreRawAmongOrdinaryOnes) {
  constexpr std::size_t kDim = 128;
  Words words = make_block(Distribution::kGaussian, kDim, 3);
  words[5 * kDim + 17] = 0x7F80;
  words[63 * kDim] = 0xFFC1;
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, kDim};
  const auto bytes = encode_block(Codec::kResidual, shape, to_rows(shape, words));
  const SlowResidual slow(bytes, kDim);
  for (std::size_t token = 0; token < kBlockTokens; ++token) {
    EXPECT_EQ(slow.is_raw(token), token == 5 || token == 63) << token;
  }
}

// A stream of patterns smaller than a unit would be longer than the row.
TEST(Residual, TokensThatDoNotPackAreRaw) {
  constexpr std::size_t kDim = 16;
  Words words(kBlockTokens * kDim, 0x0080);
  std::fill_n(words.begin(), kDim, std::uint16_t{0x4000});
  const BlockShape shape{Tensor::kKeys, RowDtype::kBf16, kDim};
  const auto bytes = encode_block(Codec::kResidual, shape, to_rows(shape, words));
  const SlowResidual slow(bytes, kDim);
  EXPECT_FALSE(slow.is_raw(0));
  for (std::size_t token = 1; token < kBlockTokens; ++token) {
    EXPECT_TRUE(slow.is_raw(token));
    EXPECT_EQ(slow.stream_end(token) - slow.stream_begin(token), 2 * kDim);
  }
}

}  // namespace
}  // namespace nearkv::test
