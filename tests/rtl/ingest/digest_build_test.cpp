// nkv_digest_build against the model's encode_digest: ranges of every shape (about zero, beside it,
// a single value, far apart exponents), channels too fine for their page, every type's elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "Vnkv_digest_build.h"
#include "digest.hpp"
#include "element.hpp"
#include "nkv_abi.h"
#include "number_words.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 8;

// What came out of a builder.
struct Built {
  model::CodedKeys coded;
  std::vector<std::vector<std::uint8_t>> planes;  // As the page stores them.
  int exponent = 0;
  std::uint64_t nonfinite = 0;
};

class Builder : public Simulation<Vnkv_digest_build> {
 public:
  Builder() { reset(); }

  void start(unsigned dim) {
    dim_ = dim;
    digest_words_ = code_words_ = 0;
    built_ = {};
    built_.coded.digest.resize(dim);
    built_.coded.codes.resize(size_t{NKV_PAGE_TOKENS} * dim);
    built_.planes.assign(NKV_KEY_PLANES,
                         std::vector<std::uint8_t>(size_t{NKV_PAGE_TOKENS} * dim / 8));
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
  }

  void send_rows(const Numbers& keys, unsigned rows, test::Random& random, unsigned pace) {
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned index = 0; index < words_of(dim_); ++index) {
        while (!is_willing(random, pace)) cycle();
        const auto keys_of_row = std::span(keys).subspan(size_t{row} * dim_, dim_);
        put_word(&**this, keys_of_row, index);
        (*this)->finite_i = finite_lanes(keys_of_row, index);
        (*this)->word_valid_i = 1;
        cycle();
        (*this)->word_valid_i = 0;
      }
    }
  }

  Built build(const Numbers& keys, unsigned dim, test::Random& random, unsigned pace) {
    start(dim);
    send_rows(keys, NKV_PAGE_TOKENS, random, pace);
    const std::uint64_t measured = cycles();
    while (!(*this)->replay_o && cycles() < measured + 1000) cycle();
    EXPECT_LE(cycles() - measured, kLanes * words_of(dim) + 25);
    EXPECT_EQ(digest_words_, words_of(dim));
    send_rows(keys, NKV_PAGE_TOKENS, random, pace);
    for (unsigned i = 1; i < kLatency; ++i) cycle();
    EXPECT_EQ(code_words_, NKV_PAGE_TOKENS * words_of(dim));
    built_.coded.step_exponent = static_cast<std::int16_t>((*this)->k_step_exponent_o);
    built_.exponent = (*this)->k_exponent_o;
    built_.nonfinite = (*this)->nonfinite_o;
    return built_;
  }

 private:
  void cycle() {
    tick();
    if ((*this)->digest_valid_o) take_digest();
    if ((*this)->codes_valid_o) take_codes();
  }

  void take_digest() {
    const unsigned index = (*this)->digest_index_o;
    ASSERT_EQ(index, digest_words_++);
    for (unsigned i = 0; i < kLanes && index * kLanes + i < dim_; ++i) {
      built_.coded.digest[index * kLanes + i] = (*this)->digest_o[i];
    }
  }

  void take_codes() {
    const unsigned row = code_words_ / words_of(dim_);
    const unsigned index = (*this)->codes_index_o;
    ASSERT_EQ(index, code_words_ % words_of(dim_));
    ++code_words_;
    ASSERT_EQ((*this)->codes_last_o, code_words_ == NKV_PAGE_TOKENS * words_of(dim_));
    for (unsigned i = 0; i < kLanes && index * kLanes + i < dim_; ++i) {
      const size_t element = size_t{row} * dim_ + index * kLanes + i;
      built_.coded.codes[element] = (*this)->code_o[i];
      for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
        const unsigned bit = (*this)->plane_o[plane] >> i & 1;
        built_.planes[plane][element / 8] |= static_cast<std::uint8_t>(bit << element % 8);
      }
    }
  }

  unsigned dim_ = 0;
  unsigned digest_words_ = 0;
  unsigned code_words_ = 0;
  Built built_;
};

void expect_models(const Built& built, const Numbers& keys, unsigned dim) {
  const model::CodedKeys expected = model::encode_digest(keys, dim);
  ASSERT_EQ(built.coded.step_exponent, expected.step_exponent);
  ASSERT_EQ(built.coded.digest, expected.digest);
  ASSERT_EQ(built.coded.codes, expected.codes);
  ASSERT_EQ(built.exponent, model::largest_exponent(keys));
  std::uint64_t nonfinite = 0;
  std::vector<std::vector<std::uint8_t>> planes(NKV_KEY_PLANES,
                                                std::vector<std::uint8_t>(keys.size() / 8));
  for (size_t element = 0; element < keys.size(); ++element) {
    if (!keys[element].finite) nonfinite |= std::uint64_t{1} << element / dim;
    for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
      const unsigned bit = expected.codes[element] >> (7 - plane) & 1;
      planes[plane][element / 8] |= static_cast<std::uint8_t>(bit << element % 8);
    }
  }
  ASSERT_EQ(built.nonfinite, nonfinite);
  ASSERT_EQ(built.planes, planes);
}

// How a channel's keys lie.
enum class Shape { kAny, kPositive, kNegative, kNear, kOne, kZero, kFar, kEnds, kCount };

Numbers channel_of(test::Random& random, Shape shape, int top, unsigned bits) {
  Numbers keys(NKV_PAGE_TOKENS);
  const model::Number one = random_number(random, top, bits);
  for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
    const int spread = shape == Shape::kFar ? 60 : 6;
    const int below = static_cast<int>(test::pick(random, 0, static_cast<unsigned>(spread)));
    model::Number key = random_number(random, std::max(top - below, 1), bits);
    if (shape == Shape::kPositive) key.negative = false;
    if (shape == Shape::kNegative) key.negative = true;
    if (shape == Shape::kNear) {
      // A few units in the last place about one number.
      const std::int64_t unit = std::int64_t{1} << (24 - bits);
      const std::int64_t moved =
          one.significand + unit * (static_cast<std::int64_t>(test::pick(random, 0, 40)) - 20);
      key = one;
      key.significand =
          std::clamp<std::int64_t>(moved, std::int64_t{1} << 23, (std::int64_t{1} << 24) - unit);
    }
    if (shape == Shape::kOne) key = one;
    if (shape == Shape::kZero) key = {.negative = random() % 2 != 0};
    if (shape == Shape::kEnds && key.exponent != top) key = {};
    if (random() % 32 == 0) key = {.finite = random() % 2 != 0};
    keys[token] = key;
  }
  return keys;
}

// Channels of every shape, their largest exponents in [low, high].
Numbers random_keys(test::Random& random, unsigned dim, unsigned low, unsigned high) {
  Numbers keys(size_t{NKV_PAGE_TOKENS} * dim);
  for (unsigned channel = 0; channel < dim; ++channel) {
    const auto shape = static_cast<Shape>(random() % static_cast<unsigned>(Shape::kCount));
    const unsigned bits = std::vector<unsigned>{1, 3, 4, 8, 8, 11}[random() % 6];
    const Numbers of_channel =
        channel_of(random, shape, static_cast<int>(test::pick(random, low, high)), bits);
    for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
      keys[token * dim + channel] = of_channel[token];
    }
  }
  return keys;
}

class EveryDimensionTest : public testing::TestWithParam<unsigned> {};

TEST_P(EveryDimensionTest, ChannelsOfEveryShape) {
  test::Random random = test::case_random(GetParam());
  Builder builder;
  const unsigned dim = GetParam();
  for (const unsigned pace : kPaces) {
    for (unsigned i = 0; i < 12; ++i) {
      const unsigned low = test::pick(random, 1, 234);
      const Numbers keys = random_keys(random, dim, low, low + 20);
      expect_models(builder.build(keys, dim, random, pace), keys, dim);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EveryDimensionTest, ChannelsTooFineForTheirPage) {
  test::Random random = test::case_random(1000 + GetParam());
  Builder builder;
  const unsigned dim = GetParam();
  for (unsigned i = 0; i < 12; ++i) {
    const unsigned low = test::pick(random, 1, 200);
    const Numbers keys = random_keys(random, dim, i % 2 == 0 ? 1 : low, low + 54);
    expect_models(builder.build(keys, dim, random, 8), keys, dim);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, EveryDimensionTest,
                         testing::Values(16, 32, 48, 64, 80, 96, 112, 128));

TEST(DigestBuildTest, PagesOfZeros) {
  test::Random random = test::case_random(1);
  Builder builder;
  Numbers keys(size_t{NKV_PAGE_TOKENS} * 128);
  expect_models(builder.build(keys, 128, random, 8), keys, 128);
  for (model::Number& key : keys)
    key = {.negative = random() % 2 != 0, .finite = random() % 2 != 0};
  expect_models(builder.build(keys, 128, random, 8), keys, 128);
}

// Pairs of ends, which are all that the step depends on: every exponent between them, at
// significands where the least step that could fit changes or fails.
TEST(DigestBuildTest, EveryDistanceOfTheEnds) {
  test::Random random = test::case_random(2);
  Builder builder;
  constexpr unsigned kDim = 128;
  for (unsigned i = 0; i < 300; ++i) {
    Numbers keys(size_t{NKV_PAGE_TOKENS} * kDim);
    for (unsigned channel = 0; channel < kDim; ++channel) {
      const int below = static_cast<int>(random() % 16);
      const model::Number far = random_number(random, 130, 11);
      const model::Number near = random_number(random, 130 - below, 11);
      for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
        keys[token * kDim + channel] = random() % 2 != 0 ? far : near;
      }
    }
    expect_models(builder.build(keys, kDim, random, 8), keys, kDim);
    if (HasFatalFailure()) return;
  }
}

// Types by their own decoding: any pattern.
class EveryTypeTest : public testing::TestWithParam<std::uint8_t> {};

TEST_P(EveryTypeTest, AnyPattern) {
  test::Random random = test::case_random(GetParam());
  Builder builder;
  for (unsigned i = 0; i < 10; ++i) {
    std::vector<std::byte> bytes(size_t{NKV_PAGE_TOKENS} * 96 * nkv_element_bytes(GetParam()));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const Numbers keys = model::decode_elements(GetParam(), bytes, size_t{NKV_PAGE_TOKENS} * 96);
    expect_models(builder.build(keys, 96, random, 8), keys, 96);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(SmallTypes, EveryTypeTest,
                         testing::Values(NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                         NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8));

TEST(DigestBuildTest, StartAndResetForgetAPageUnderWay) {
  test::Random random = test::case_random(3);
  Builder builder;
  const Numbers other = random_keys(random, 128, 1, 254);
  for (const bool resets : {false, true}) {
    for (const unsigned waits : {0u, 20u, 135u, 145u, 160u}) {
      builder.start(128);
      builder.send_rows(other, NKV_PAGE_TOKENS, random, 8);
      builder.ticks(waits);
      if (resets) builder.reset();
      const Numbers keys = random_keys(random, 112, 90, 104);
      expect_models(builder.build(keys, 112, random, 8), keys, 112);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
