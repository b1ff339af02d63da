// nkv_value_statistics against the model's value_statistics: every dimension, every largest
// exponent (residuals from nothing over subnormals to infinity), residuals that are ties.
#include "value_statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "Vnkv_value_statistics.h"
#include "element.hpp"
#include "nkv_abi.h"
#include "number_words.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

class Statistics : public Simulation<Vnkv_value_statistics> {
 public:
  Statistics() { reset(); }

  void start(unsigned dim) {
    dim_ = dim;
    sum_words_ = 0;
    statistics_ = {};
    statistics_.sums.resize(dim);
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
  }

  void send_rows(const Numbers& values, unsigned rows, test::Random& random, unsigned pace) {
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned index = 0; index < words_of(dim_); ++index) {
        while (!is_willing(random, pace)) cycle();
        put_word(&**this, std::span(values).subspan(size_t{row} * dim_, dim_), index);
        (*this)->word_valid_i = 1;
        cycle();
        (*this)->word_valid_i = 0;
      }
    }
  }

  model::ValueStatistics build(const Numbers& values, unsigned dim, test::Random& random,
                               unsigned pace) {
    start(dim);
    send_rows(values, NKV_PAGE_TOKENS, random, pace);
    for (unsigned i = 1; i < 4; ++i) cycle();
    EXPECT_TRUE((*this)->replay_o);
    send_rows(values, NKV_PAGE_TOKENS, random, pace);
    const std::uint64_t sent = cycles();
    while (!(*this)->done_o && cycles() < sent + 1000) cycle();
    EXPECT_TRUE((*this)->done_o);
    EXPECT_LE(cycles() - sent, kLanes * words_of(dim) + 100);
    EXPECT_EQ(sum_words_, words_of(dim));
    statistics_.exponent = (*this)->v_exponent_o;
    statistics_.residual = std::bit_cast<float>(std::uint32_t{(*this)->v_residual_o});
    return statistics_;
  }

 private:
  void cycle() {
    tick();
    if (!(*this)->sums_valid_o) return;
    const unsigned index = (*this)->sums_index_o;
    ASSERT_EQ(index, sum_words_++);
    for (unsigned i = 0; i < kLanes && index * kLanes + i < dim_; ++i) {
      statistics_.sums[index * kLanes + i] = static_cast<std::int32_t>((*this)->sum_o[i]);
    }
  }

  unsigned dim_ = 0;
  unsigned sum_words_ = 0;
  model::ValueStatistics statistics_;
};

void expect_models(const model::ValueStatistics& statistics, const Numbers& values, unsigned dim) {
  const model::ValueStatistics expected = model::value_statistics(values, dim);
  ASSERT_EQ(statistics.exponent, expected.exponent);
  ASSERT_EQ(statistics.sums, expected.sums);
  ASSERT_EQ(std::bit_cast<std::uint32_t>(statistics.residual),
            std::bit_cast<std::uint32_t>(expected.residual));
}

// Numbers of up to `bits` bits, up to `spread` octaves below the exponent `top`; some are zero.
Numbers random_values(test::Random& random, unsigned dim, int top, unsigned spread, unsigned bits) {
  Numbers values(size_t{NKV_PAGE_TOKENS} * dim);
  for (model::Number& value : values) {
    if (random() % 16 == 0) continue;
    const int below = static_cast<int>(test::pick(random, 0, spread));
    value = random_number(random, std::max(top - below, 1), bits);
  }
  return values;
}

class EveryDimensionTest : public testing::TestWithParam<unsigned> {};

TEST_P(EveryDimensionTest, ValuesOfAnySpread) {
  test::Random random = test::case_random(GetParam());
  Statistics statistics;
  const unsigned dim = GetParam();
  for (const unsigned pace : kPaces) {
    for (const unsigned spread : {0u, 3u, 12u, 40u}) {
      for (const unsigned bits : {3u, 4u, 8u, 24u}) {
        const int top = static_cast<int>(test::pick(random, 100, 160));
        const Numbers values = random_values(random, dim, top, spread, bits);
        expect_models(statistics.build(values, dim, random, pace), values, dim);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, EveryDimensionTest,
                         testing::Values(16, 32, 48, 64, 80, 96, 112, 128));

TEST(ValueStatisticsTest, EveryLargestExponent) {
  test::Random random = test::case_random(1);
  Statistics statistics;
  for (int top = 1; top <= 254; ++top) {
    const Numbers values = random_values(random, 32, top, 6, 8);
    expect_models(statistics.build(values, 32, random, 8), values, 32);
    if (HasFatalFailure()) return;
  }
}

// 63 * 2^n: a few bits, whose last ones fall off the subnormals as ties, too.
TEST(ValueStatisticsTest, OneValueAtEveryExponent) {
  test::Random random = test::case_random(2);
  Statistics statistics;
  for (int top = 1; top <= 254; ++top) {
    Numbers values(size_t{NKV_PAGE_TOKENS} * 16);
    values[random() % values.size()] = random_number(random, top, 1);
    expect_models(statistics.build(values, 16, random, 8), values, 16);
    if (HasFatalFailure()) return;
  }
}

// Residuals of about 25 bits, a quarter of which lie half way between two results.
TEST(ValueStatisticsTest, Ties) {
  test::Random random = test::case_random(3);
  Statistics statistics;
  for (unsigned i = 0; i < 60; ++i) {
    const Numbers values = random_values(random, 16 + i % 8 * 16, 127, 2, 3 + i % 3);
    expect_models(statistics.build(values, 16 + i % 8 * 16, random, 8), values, 16 + i % 8 * 16);
    if (HasFatalFailure()) return;
  }
}

TEST(ValueStatisticsTest, ExtremesOfEverySum) {
  test::Random random = test::case_random(4);
  Statistics statistics;
  for (const bool negative : {false, true}) {
    for (const bool alternates : {false, true}) {
      Numbers values(size_t{NKV_PAGE_TOKENS} * 128);
      for (size_t element = 0; element < values.size(); ++element) {
        values[element] = {.negative = negative != (alternates && element / 128 % 2 != 0),
                           .exponent = 254,
                           .significand = (1 << 24) - 1};
      }
      expect_models(statistics.build(values, 128, random, 8), values, 128);
    }
  }
}

TEST(ValueStatisticsTest, PagesOfZeros) {
  test::Random random = test::case_random(5);
  Statistics statistics;
  Numbers values(size_t{NKV_PAGE_TOKENS} * 64);
  for (model::Number& value : values) value = {.negative = random() % 2 != 0};
  expect_models(statistics.build(values, 64, random, 8), values, 64);
}

TEST(ValueStatisticsTest, StartAndResetForgetAPageUnderWay) {
  test::Random random = test::case_random(6);
  Statistics statistics;
  const Numbers other = random_values(random, 128, 250, 20, 8);
  for (const bool resets : {false, true}) {
    for (const unsigned waits : {0u, 5u, 12u, 100u, 145u, 160u}) {
      statistics.start(128);
      statistics.send_rows(other, NKV_PAGE_TOKENS, random, 8);
      statistics.ticks(6);
      statistics.send_rows(other, waits == 0 ? 30 : NKV_PAGE_TOKENS, random, 8);
      statistics.ticks(waits);
      if (resets) statistics.reset();
      const Numbers values = random_values(random, 112, 120, 10, 8);
      expect_models(statistics.build(values, 112, random, 8), values, 112);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
