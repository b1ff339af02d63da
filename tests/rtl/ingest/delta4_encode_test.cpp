// nkv_delta4_encode against the model's encode_delta4: tensors of every dimension whose exponents
// spread a little or a lot, with gaps between words and without.
#include <gtest/gtest.h>

#include <vector>

#include "Vnkv_delta4_encode.h"
#include "delta4.hpp"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kLatency = 5;
constexpr unsigned kMostCyclesAfterLastWord = 24;

using Patterns = std::vector<std::uint16_t>;  // [PAGE_TOKENS][dim]

// What came out of an encoder.
struct Encoded {
  std::vector<std::uint8_t> exponents;
  std::vector<std::byte> rows;
  std::vector<nkv_row_exception> exceptions;
  bool overflow = false;
};

class Encoder : public Simulation<Vnkv_delta4_encode> {
 public:
  Encoder() { reset(); }

  void start(unsigned dim) {
    dim_ = dim;
    words_out_ = 0;
    encoded_ = {};
    encoded_.exponents.resize(dim);
    encoded_.rows.resize(nkv_row_bytes(NKV_ROW_FORM_DELTA4, NKV_DTYPE_BF16, dim) * NKV_PAGE_TOKENS);
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
  }

  void send_rows(const Patterns& patterns, unsigned rows, test::Random& random, unsigned pace) {
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned first = 0; first < dim_; first += kLanes) {
        while (!is_willing(random, pace)) cycle();
        for (unsigned i = 0; i < kLanes; ++i) {
          const unsigned channel = first + i;
          (*this)->word_i[i] = channel < dim_ ? patterns[row * dim_ + channel] : 0;
        }
        (*this)->word_valid_i = 1;
        cycle();
        (*this)->word_valid_i = 0;
      }
    }
  }

  // Both passes.
  Encoded encode(const Patterns& patterns, unsigned dim, test::Random& random, unsigned pace) {
    start(dim);
    send_rows(patterns, NKV_PAGE_TOKENS, random, pace);
    send_rows(patterns, NKV_PAGE_TOKENS, random, pace);
    unsigned waited = 0;
    while (!(*this)->done_o && waited++ < kLatency + kMostCyclesAfterLastWord) cycle();
    EXPECT_TRUE((*this)->done_o);
    EXPECT_EQ(words_out_, NKV_PAGE_TOKENS * ((dim + kLanes - 1) / kLanes));
    encoded_.overflow = (*this)->overflow_o;
    for (unsigned i = 0; i < NKV_EXCEPTIONS; ++i) {
      const std::uint32_t entry = (*this)->exception_o[i];
      encoded_.exceptions.push_back({.element = static_cast<std::uint16_t>(entry),
                                     .bits = static_cast<std::uint16_t>(entry >> 16)});
    }
    return encoded_;
  }

 private:
  void cycle() {
    tick();
    if ((*this)->word_valid_o) take_word();
  }

  void take_word() {
    const unsigned words = (dim_ + kLanes - 1) / kLanes;
    const unsigned row = words_out_ / words;
    const unsigned index = words_out_ % words;
    ASSERT_EQ((*this)->word_index_o, index);
    ++words_out_;
    ASSERT_LT(row, unsigned{NKV_PAGE_TOKENS});
    std::byte* const bytes = &encoded_.rows[size_t{row} * dim_ * 3 / 2];
    for (unsigned i = 0; i < kLanes && index * kLanes + i < dim_; ++i) {
      const unsigned channel = index * kLanes + i;
      if (row == 0) {
        encoded_.exponents[channel] = (*this)->exponent_o[i];
      } else {
        ASSERT_EQ(encoded_.exponents[channel], (*this)->exponent_o[i]);
      }
      bytes[channel] = static_cast<std::byte>((*this)->low_o[i]);
      bytes[dim_ + channel / 2] |= static_cast<std::byte>((*this)->nibble_o[i] << channel % 2 * 4);
    }
  }

  unsigned dim_ = 0;
  unsigned words_out_ = 0;
  Encoded encoded_;
};

void expect_models(const Encoded& encoded, const Patterns& patterns, unsigned dim) {
  const std::optional<model::Delta4> expected = model::encode_delta4(patterns, dim);
  ASSERT_EQ(encoded.overflow, !expected.has_value());
  if (!expected) return;
  ASSERT_EQ(encoded.exponents, expected->exponents);
  ASSERT_EQ(encoded.rows, expected->rows);
  for (unsigned i = 0; i < NKV_EXCEPTIONS; ++i) {
    ASSERT_EQ(encoded.exceptions[i].element, expected->exceptions[i].element) << i;
    ASSERT_EQ(encoded.exceptions[i].bits, expected->exceptions[i].bits) << i;
  }
}

// Random signs and mantissas; exponents in [low, high].
Patterns random_patterns(test::Random& random, unsigned dim, unsigned low, unsigned high) {
  Patterns patterns(size_t{NKV_PAGE_TOKENS} * dim);
  for (std::uint16_t& pattern : patterns) {
    pattern = static_cast<std::uint16_t>(test::pick(random, low, high) << 7 | (random() & 0x807f));
  }
  return patterns;
}

class EveryDimensionTest : public testing::TestWithParam<unsigned> {};

TEST_P(EveryDimensionTest, ExponentsWithinSixteen) {
  test::Random random = test::case_random(GetParam());
  Encoder encoder;
  const unsigned dim = GetParam();
  for (const unsigned pace : kPaces) {
    for (const unsigned low : {0u, 1u, 5u, 120u, 240u}) {
      const Patterns patterns = random_patterns(random, dim, low, low + 14);
      expect_models(encoder.encode(patterns, dim, random, pace), patterns, dim);
      if (HasFatalFailure()) return;
    }
  }
}

// From none to one too many, spread over the tensor and side by side.
TEST_P(EveryDimensionTest, AnyNumberOfExceptions) {
  test::Random random = test::case_random(1000 + GetParam());
  Encoder encoder;
  const unsigned dim = GetParam();
  const unsigned elements = NKV_PAGE_TOKENS * dim;
  for (unsigned count = 0; count <= NKV_EXCEPTIONS + 2; ++count) {
    for (const bool together : {false, true}) {
      Patterns patterns = random_patterns(random, dim, 100, 114);
      const unsigned first = test::pick(random, 0, elements - count);
      for (unsigned i = 0; i < count; ++i) {
        const unsigned element = together ? first + i : test::pick(random, 0, elements - 1);
        const unsigned exponent = i % 3 == 0 ? 255 : i % 3 == 1 ? 0 : 50;
        patterns[element] = static_cast<std::uint16_t>((random() & 0x807f) | exponent << 7 | 1);
      }
      expect_models(encoder.encode(patterns, dim, random, 8), patterns, dim);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, EveryDimensionTest,
                         testing::Values(16, 32, 48, 64, 80, 96, 112, 128));

TEST(Delta4EncodeTest, ZerosKeepTheirSigns) {
  test::Random random = test::case_random(1);
  Encoder encoder;
  Patterns patterns(size_t{NKV_PAGE_TOKENS} * 128);
  expect_models(encoder.encode(patterns, 128, random, 8), patterns, 128);
  for (std::uint16_t& pattern : patterns) pattern = static_cast<std::uint16_t>(random() & 0x8000);
  expect_models(encoder.encode(patterns, 128, random, 8), patterns, 128);
}

TEST(Delta4EncodeTest, ChannelsOfNothingFiniteOverflow) {
  test::Random random = test::case_random(2);
  Encoder encoder;
  const Patterns patterns = random_patterns(random, 64, 255, 255);
  expect_models(encoder.encode(patterns, 64, random, 8), patterns, 64);
}

TEST(Delta4EncodeTest, AnyPatternAtAll) {
  test::Random random = test::case_random(3);
  Encoder encoder;
  for (unsigned i = 0; i < 5; ++i) {
    const Patterns patterns = random_patterns(random, 96, 0, 255);
    expect_models(encoder.encode(patterns, 96, random, 5), patterns, 96);
  }
}

TEST(Delta4EncodeTest, StartForgetsATensorUnderWay) {
  test::Random random = test::case_random(4);
  Encoder encoder;
  for (const unsigned passes : {1u, 2u}) {
    const Patterns wild = random_patterns(random, 128, 0, 255);
    encoder.start(128);
    for (unsigned pass = 0; pass < passes; ++pass) {
      encoder.send_rows(wild, pass + 1 < passes ? NKV_PAGE_TOKENS : 37, random, 8);
    }
    const Patterns patterns = random_patterns(random, 112, 90, 104);
    expect_models(encoder.encode(patterns, 112, random, 8), patterns, 112);
  }
}

TEST(Delta4EncodeTest, ResetForgetsATensorUnderWay) {
  test::Random random = test::case_random(5);
  Encoder encoder;
  encoder.start(128);
  const Patterns wild = random_patterns(random, 128, 0, 255);
  encoder.send_rows(wild, NKV_PAGE_TOKENS, random, 8);
  encoder.send_rows(wild, 3, random, 8);
  encoder.reset();
  const Patterns patterns = random_patterns(random, 128, 90, 105);
  expect_models(encoder.encode(patterns, 128, random, 8), patterns, 128);
}

}  // namespace
}  // namespace nearkv::rtl_test
