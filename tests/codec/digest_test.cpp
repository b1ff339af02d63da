// The quantiser's steps are those of ARITHMETIC.md section 2.1, which is repeated here literally
// and slowly.
#include "codec/digest.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "blocks.hpp"

namespace nearkv::test {
namespace {

using codec::ChannelStep;

constexpr int kLeastExponent = -180;

bool is_finite(std::uint16_t bits) { return (bits & 0x7F80) != 0x7F80; }

double value(std::uint16_t bits) {
  if ((bits & 0x7F80) == 0 || !is_finite(bits)) return 0;
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

double cell(double v, double step) { return std::floor(v / step); }

struct SlowChannel {
  double low = 0;
  double high = 0;
  std::optional<ChannelStep> own;
};

double base_for(double low, double step) { return std::floor(cell(low, step) / 4); }

SlowChannel slow_channel(const Words& words, std::size_t dim, std::size_t channel) {
  SlowChannel result{
      std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), {}};
  for (std::size_t i = channel; i < words.size(); i += dim) {
    result.low = std::min(result.low, value(words[i]));
    result.high = std::max(result.high, value(words[i]));
  }
  if (result.low == 0 && result.high == 0) return result;
  for (int s = kLeastExponent;; ++s) {
    for (int m = 8; m < 16; ++m) {
      const double step = std::ldexp(m, s);
      const double base = base_for(result.low, step);
      if (cell(result.high, step) - 4 * base <= 255 && base >= -128 && base <= 127) {
        result.own = ChannelStep{static_cast<std::int8_t>(base), static_cast<std::uint8_t>(m),
                                 static_cast<std::int16_t>(s)};
        return result;
      }
    }
  }
}

void expect_as_specified(const Words& words, std::size_t dim) {
  std::vector<SlowChannel> slow;
  int coarsest = -127;
  bool any = false;
  for (std::size_t c = 0; c < dim; ++c) {
    slow.push_back(slow_channel(words, dim, c));
    const std::optional<ChannelStep> own = slow[c].own;
    if (!own) continue;
    coarsest = any ? std::max(coarsest, int{own->exponent}) : own->exponent;
    any = true;
  }
  std::vector<float> low;
  std::vector<float> high;
  for (const SlowChannel& channel : slow) {
    low.push_back(static_cast<float>(channel.low));
    high.push_back(static_cast<float>(channel.high));
  }
  std::vector<ChannelStep> steps(dim);
  const int k_step_exponent = codec::smallest_steps(low, high, steps);
  ASSERT_EQ(k_step_exponent, coarsest);

  for (std::size_t c = 0; c < dim; ++c) {
    SCOPED_TRACE(testing::Message()
                 << "channel " << c << " from " << slow[c].low << " to " << slow[c].high);
    ChannelStep expected;
    const std::optional<ChannelStep> own = slow[c].own;
    if (own && coarsest - own->exponent <= 31) {
      expected = *own;
    } else {
      expected.exponent = static_cast<std::int16_t>(coarsest - 31);
      expected.mantissa = 8;
      expected.base =
          static_cast<std::int8_t>(base_for(slow[c].low, std::ldexp(8, expected.exponent)));
    }
    ASSERT_EQ(steps[c].exponent, expected.exponent);
    ASSERT_EQ(steps[c].mantissa, expected.mantissa);
    ASSERT_EQ(steps[c].base, expected.base);
    ASSERT_EQ(codec::unpack_step(codec::pack_step(steps[c], k_step_exponent), k_step_exponent),
              steps[c]);
  }
}

TEST(KeyDigest, IsAsSpecifiedForEveryDistribution) {
  for (const std::size_t dim : kDims) {
    for (const Distribution distribution : kDistributions) {
      SCOPED_TRACE(testing::Message() << name(distribution) << " dim " << dim);
      expect_as_specified(make_block(distribution, dim, 1), dim);
    }
  }
}

// Ranges between pairs of numbers with few significant bits hit the borders of the conditions.
TEST(KeyDigest, IsAsSpecifiedForRangesOnTheBorder) {
  constexpr std::size_t kDim = 576;
  std::mt19937 engine(2);
  const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
  const auto pick = [&](unsigned mantissa_bits, unsigned exponents) {
    const unsigned mantissa = (random() & 0x7F) >> (7 - mantissa_bits) << (7 - mantissa_bits);
    const unsigned exponent = 120 + random() % exponents;
    return static_cast<std::uint16_t>((random() & 1) << 15 | exponent << 7 | mantissa);
  };
  for (int block = 0; block < 60; ++block) {
    const unsigned mantissa_bits = static_cast<unsigned>(block) % 8;
    const unsigned exponents = block % 3 == 0 ? 2 : block % 3 == 1 ? 12 : 100;
    Words words(kBlockTokens * kDim);
    for (std::size_t c = 0; c < kDim; ++c) {
      const std::uint16_t first = pick(mantissa_bits, exponents);
      const std::uint16_t second = pick(mantissa_bits, exponents);
      for (std::size_t t = 0; t < kBlockTokens; ++t) {
        words[t * kDim + c] = t == 0 ? second : t < 8 ? pick(mantissa_bits, exponents) : first;
      }
      for (std::size_t t = 1; t < 8; ++t) {
        const double v = value(words[t * kDim + c]);
        const bool inside = v >= std::min(value(first), value(second)) &&
                            v <= std::max(value(first), value(second));
        if (!inside) words[t * kDim + c] = first;
      }
    }
    expect_as_specified(words, kDim);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::test
