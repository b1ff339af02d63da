// The arithmetic of INT8, INT4 and FP8, an element or a group at a time: parameters against the
// host library, which makes those of 64 tokens at once, codes and elements against FORMATS.md in
// float.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "Vnkv_quant_lanes_bench.h"
#include "nearkv/codec.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kScaleLatency = 8;
constexpr unsigned kCodeLatency = 9;
constexpr unsigned kValueLatency = 9;
constexpr unsigned kFp8Latency = 2;
constexpr std::uint16_t kLimit = 253 << 7;  // 2^126

float number(std::uint32_t bf16) { return std::bit_cast<float>(bf16 << 16); }

std::uint16_t flushed(std::uint32_t bf16) {
  return (bf16 & 0x7F80U) == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(bf16);
}

class QuantLanesTest : public testing::Test {
 protected:
  QuantLanesTest() { module_.reset(); }

  /// Sets inputs by `set` for `count` cycles; `check` sees each one's outputs, `latency` later.
  template <typename Item>
  void run(unsigned count, unsigned latency, const std::function<Item()>& set,
           const std::function<void(const Item&)>& check) {
    std::deque<Item> under_way;
    for (unsigned i = 0; i < count + latency && !HasFailure(); ++i) {
      under_way.push_back(set());
      module_.tick();
      if (under_way.size() == latency) {
        check(under_way.front());
        under_way.pop_front();
      }
    }
  }

  /// A bf16 number that the codecs of integers take, often with few bits or near others.
  std::uint16_t moderate() {
    const bool is_any = random_() % 4 == 0;
    const std::uint32_t ends = random_() % 2 == 0 ? 0 : 127;
    const std::uint32_t fraction = random_() % 4 == 0 ? ends : test::pick(random_, 0, 127);
    const std::uint32_t exponent =
        is_any ? test::pick(random_, 0, 252) : exponent_ + test::pick(random_, 0, 8);
    return flushed(test::pick(random_, 0, 1) << 15 | std::min<std::uint32_t>(exponent, 252) << 7 |
                   fraction);
  }

  Simulation<Vnkv_quant_lanes_bench> module_;
  test::Random random_ = test::case_random(7);
  std::uint32_t exponent_ = 120;
};

struct Group {
  std::uint16_t least;
  std::uint16_t greatest;
};

bool is_less(const Group& group) { return number(group.least) <= number(group.greatest); }

// 64 tokens' parameters by the library; each holds its two elements.
std::vector<std::uint32_t> parameters_of(Codec codec, const std::vector<Group>& groups) {
  const BlockShape shape{.tensor = Tensor::kValues, .dtype = RowDtype::kBf16, .dim = 16};
  std::vector<std::uint16_t> words(64 * 16);
  for (std::size_t g = 0; g < 64; ++g) {
    for (std::size_t c = 0; c < 16; ++c) {
      words[16 * g + c] = c % 2 == 0 ? groups[g].least : groups[g].greatest;
    }
  }
  std::vector<std::byte> out(encoded_bound(codec, shape));
  CodecWorkspace workspace;
  std::size_t size = 0;
  EXPECT_EQ(encode(codec, shape, std::as_bytes(std::span(words)), out, &size, workspace),
            Status::kOk);
  std::vector<std::uint32_t> parameters(64);
  for (std::size_t g = 0; g < 64; ++g) {
    if (codec == Codec::kFp8)
      parameters[g] = std::to_integer<std::uint32_t>(out[g]) << 16;
    else
      std::memcpy(&parameters[g], &out[4 * g], 4);
  }
  return parameters;
}

TEST_F(QuantLanesTest, ParametersAreTheLibrarys) {
  for (unsigned round = 0; round < 12000 && !HasFailure(); ++round) {
    const Codec codec = std::array{Codec::kInt8, Codec::kInt4, Codec::kFp8}[round % 3];
    exponent_ = test::pick(random_, 0, 245);
    std::vector<Group> groups(64);
    for (Group& group : groups) {
      do {
        group = {moderate(), moderate()};
        if (random_() % 8 == 0) group.greatest = group.least;
        // The far ends of what binary64 adds up, beside numbers that the codes divide.
        if (random_() % 4 == 0) {
          const std::uint32_t high = test::pick(random_, 60, 252);
          const std::uint32_t low = high - test::pick(random_, 5, 59);
          const std::uint32_t fraction = std::array{0x7FU, 0x70U, 0x00U, 0x78U}[random_() % 4];
          const std::uint32_t rest = random_() % 2 == 0 ? 0 : test::pick(random_, 0, 127);
          group = {static_cast<std::uint16_t>(0x8000U | low << 7 | rest),
                   static_cast<std::uint16_t>(high << 7 | fraction)};
          if (random_() % 2 == 0) {
            group = {static_cast<std::uint16_t>(group.greatest | 0x8000U),
                     static_cast<std::uint16_t>(group.least & 0x7FFFU)};
          }
        }
      } while (!is_less(group));
    }
    const std::vector<std::uint32_t> expected = parameters_of(codec, groups);
    std::size_t next = 0;
    run<std::size_t>(
        64, kScaleLatency,
        [&] {
          const Group& group = groups[std::min<std::size_t>(next, 63)];
          module_->codec_i = static_cast<std::uint8_t>(codec);
          module_->least_i = group.least;
          module_->greatest_i = group.greatest;
          return next++;
        },
        [&](const std::size_t& g) {
          if (g >= 64) return;
          const std::uint32_t ours = static_cast<std::uint32_t>(module_->scale_o) << 16 |
                                     static_cast<std::uint32_t>(module_->zero_o);
          EXPECT_EQ(ours, expected[g]) << std::hex << groups[g].least << " to "
                                       << groups[g].greatest << " codec " << round % 3;
          if (codec == Codec::kFp8 || module_->scale_o == 0) return;
          const auto inverse = std::bit_cast<std::uint32_t>(1.0F / number(module_->scale_o));
          EXPECT_EQ(module_->reciprocal_o, inverse & 0x7FFFFFU);
        });
  }
}

TEST_F(QuantLanesTest, Codes) {
  struct Item {
    std::uint16_t element, zero, scale;
    bool is_nibble;
  };
  bool is_nibble = false;
  run<Item>(
      4'000'000, kCodeLatency,
      [&]() -> Item {
        if (random_() % 16 == 0) exponent_ = test::pick(random_, 1, 240);
        Item item{};
        is_nibble = random_() % 2 == 0;
        item.is_nibble = is_nibble;
        item.zero = moderate();
        item.scale = static_cast<std::uint16_t>(moderate() & 0x7FFFU);
        if (random_() % 2 == 0) {
          // An element that lies within the codes, often halfway between two.
          const float halves = static_cast<float>(random_() % (is_nibble ? 32 : 512)) / 2;
          const float wanted = number(item.zero) + halves * number(item.scale);
          item.element = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(wanted) >> 16);
        } else {
          item.element = moderate();
        }
        if (random_() % 64 == 0) item.scale = 0;
        if (random_() % 256 == 0) item.element = static_cast<std::uint16_t>(random_() % 128);
        if ((item.element & 0x7FFFU) >= kLimit) item.element = item.zero;
        if (number(flushed(item.element)) < number(item.zero)) item.element = item.zero;
        module_->codec_i = static_cast<std::uint8_t>(is_nibble ? Codec::kInt4 : Codec::kInt8);
        module_->element_i = item.element;
        module_->zero_i = item.zero;
        module_->scale_i = item.scale;
        const float inverse = item.scale != 0 ? 1.0F / number(item.scale) : 0;
        module_->reciprocal_i = std::bit_cast<std::uint32_t>(inverse) & 0x7FFFFFU;
        return item;
      },
      [&](const Item& item) {
        const float inverse = item.scale != 0 ? 1.0F / number(item.scale) : 0;
        const float difference = number(flushed(item.element)) - number(item.zero);
        const float quotient = difference * inverse;
        const float raised = quotient + 0.5F;
        const float greatest = item.is_nibble ? 15 : 255;
        EXPECT_EQ(module_->code_o, static_cast<unsigned>(std::min(raised, greatest)))
            << std::hex << item.element << " - " << item.zero << " by " << item.scale;
      });
}

TEST_F(QuantLanesTest, Elements) {
  struct Item {
    std::uint16_t zero, scale;
    std::uint8_t code;
  };
  run<Item>(
      4'000'000, kValueLatency,
      [&] {
        if (random_() % 16 == 0) exponent_ = test::pick(random_, 0, 252);
        Item item{moderate(), moderate(), static_cast<std::uint8_t>(random_())};
        item.scale &= 0x7FFFU;
        if (random_() % 64 == 0) item.scale = kLimit;
        if (random_() % 64 == 0) item.scale = static_cast<std::uint16_t>(random_() % 128);
        if (random_() % 64 == 0) item.zero = static_cast<std::uint16_t>(random_() & 0x807FU);
        if (random_() % 8 == 0) {
          // Sums that nearly vanish, or are just halfway between two.
          const float near = -static_cast<float>(item.code) * number(item.scale);
          const auto bits = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(near) >> 16) +
                                                       random_() % 3);
          if ((bits & 0x7FFFU) < kLimit) item.zero = bits;
        }
        module_->zero_i = item.zero;
        module_->scale_i = item.scale;
        module_->code_i = item.code;
        return item;
      },
      [&](const Item& item) {
        const float product = static_cast<float>(item.code) * number(flushed(item.scale));
        const float sum = number(flushed(item.zero)) + product;
        const auto bits = std::bit_cast<std::uint32_t>(sum);
        const auto rounded =
            flushed(static_cast<std::uint32_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16));
        EXPECT_EQ(module_->element_o, rounded)
            << std::hex << item.zero << " + " << unsigned{item.code} << " * " << item.scale;
      });
}

// The value of a code before scaling, which is exact in double.
double e4m3(unsigned code) {
  const unsigned field = code >> 3 & 15;
  const double significand = (code & 7) + (field != 0 ? 8 : 0);
  return std::ldexp(significand, static_cast<int>(std::max(field, 1U)) - 10);
}

TEST_F(QuantLanesTest, EveryFp8Element) {
  struct Item {
    unsigned code, scale;
  };
  unsigned next = 0;
  run<Item>(
      65536, kFp8Latency,
      [&]() -> Item {
        const Item item{next & 255, next >> 8 & 255};
        ++next;
        module_->code_i = static_cast<std::uint8_t>(item.code);
        module_->scale_i = static_cast<std::uint16_t>(item.scale);
        return item;
      },
      [&](const Item& item) {
        EXPECT_EQ(module_->is_nan_o, (item.code & 127) == 127);
        if (module_->is_nan_o) return;
        const double value = std::ldexp(e4m3(item.code), static_cast<int>(item.scale) - 135);
        std::uint32_t bits = 0;
        if (value >= std::ldexp(1, 128))
          bits = 0x7F7F;
        else if (value >= std::ldexp(1, -126)) {
          bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
        }
        EXPECT_EQ(module_->fp8_element_o, bits | ((item.code & 128) << 8))
            << item.code << " at " << item.scale;
      });
}

// Each element with each scale that a group with it may have; the nearest code, ties to even.
TEST_F(QuantLanesTest, EveryFp8Code) {
  struct Item {
    unsigned element, scale;
  };
  for (unsigned exponent = 0; exponent < 255 && !HasFailure(); ++exponent) {
    for (unsigned above = 0; above < 24 && exponent + above < 256 && !HasFailure(); ++above) {
      unsigned next = 0;
      run<Item>(
          128, kFp8Latency,
          [&]() -> Item {
            const unsigned fraction = next++ % 128;
            // A larger one would not fit its own scale.
            const unsigned scale = exponent + above + (above == 0 && fraction > 0x60 ? 1 : 0);
            const Item item{(next % 2) << 15 | exponent << 7 | fraction, scale};
            module_->element_i = static_cast<std::uint16_t>(item.element);
            module_->scale_i = static_cast<std::uint16_t>(std::min(scale, 255U));
            return item;
          },
          [&](const Item& item) {
            const double value = std::abs(static_cast<double>(number(flushed(item.element)))) *
                                 std::ldexp(1, 135 - static_cast<int>(item.scale));
            unsigned nearest = 0;
            while (nearest < 126 && e4m3(nearest + 1) <= value) ++nearest;
            if (nearest < 126) {
              const double middle = (e4m3(nearest) + e4m3(nearest + 1)) / 2;
              if (value > middle || (value == middle && nearest % 2 == 1)) ++nearest;
            }
            EXPECT_EQ(module_->fp8_code_o, nearest | ((item.element >> 8) & 128))
                << std::hex << item.element << " at " << item.scale;
          });
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
