// Tables of codes and the numbers that are looked up in them (sections 11 and 13), looked at from
// inside the model.
#include "code_tables.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "code_errors.hpp"
#include "code_weights.hpp"

namespace nearkv::test {
namespace {

TEST(DrawnScores, AreThoseOfASixteenBitMultiplicationThatRounds) {
  // μ + ⌊(R + h − μ) · W⌉₁₅.
  EXPECT_EQ(model::drawn_score(100, 40, 50, 16384), 40 + 55);
  EXPECT_EQ(model::drawn_score(101, 40, 50, 16384), 40 + 56);  // Half of 111, up.
  EXPECT_EQ(model::drawn_score(-101, 40, 50, 16384), -101 + 50);
  // R ± h.
  EXPECT_EQ(model::drawn_score(500, 40, 3, 16384), 497);
  EXPECT_EQ(model::drawn_score(-101, 40, 50, 4096), -51);
  // A difference beyond 16 bits.
  EXPECT_EQ(model::drawn_score(16000, -16500, 3000, 32767), -16500 + 32766);
  EXPECT_EQ(model::drawn_score(-16400, 16500, 9, 32767), -16400 + 9);
}

TEST(Tables, SayWhatAnErrorOfALogitDoes) {
  struct Entry {
    int variance;
    int64_t half;
    int key;
    int value;
    int excess;
  };
  // log2 e is 1.4427; e − 1 is 1.7183.
  for (const Entry& entry :
       {Entry{-160, 0, -160, 0, -160}, Entry{-16, 46, 2, 12, -10}, Entry{0, 92, 36, 23, 12},
        Entry{33, 386, 192, 96, 96}, Entry{96, 5909, 2955, 1477, 1477},
        Entry{400, 5909, 2955, 1477, 1477}, Entry{-200, 0, -160, 0, -160}}) {
    SCOPED_TRACE(entry.variance);
    const model::VarianceEffects effects = model::variance_effects(entry.variance);
    EXPECT_EQ(effects.half, entry.half);
    EXPECT_EQ(effects.key, entry.key);
    EXPECT_EQ(effects.value, entry.value);
    EXPECT_EQ(effects.excess, entry.excess);
  }
  EXPECT_EQ(model::spread_part(-160), 32);
  EXPECT_EQ(model::spread_part(-16), 10923);
  EXPECT_EQ(model::spread_part(0), 16384);
  EXPECT_EQ(model::spread_part(16), 21845);
  EXPECT_EQ(model::spread_part(160), 32736);
  EXPECT_EQ(model::spread_part(1000), 32736);
}

TEST(Tables, SumLogarithms) {
  EXPECT_EQ(model::log_sum(7, 7), 7 + 16);
  EXPECT_EQ(model::log_sum(0, -16), 9);  // 16 · log2 1.5 is 9.36.
  EXPECT_EQ(model::log_sum(-90, 3), 3);
  EXPECT_EQ(model::log_sum(-500, 3), 3);
}

TEST(Tables, AreNotWithinTheirErrorOfAHalf) {
  for (int i = 0; i < 16; ++i) {
    const double exact = std::exp2(i / 16.0) * 2048;
    EXPECT_GT(std::abs(exact - std::floor(exact) - .5), 1e-6) << i;
    EXPECT_EQ(model::octave_table()[static_cast<size_t>(i)], std::floor(exact + .5));
  }
}

TEST(Tables, GiveLogarithmsInSixteenths) {
  for (uint64_t value = 1; value < 70'000; ++value) {
    const double exact = 16 * std::log2(static_cast<double>(value));
    EXPECT_LE(model::log2_sixteenths(value), exact + 1e-9) << value;
    EXPECT_GT(model::log2_sixteenths(value), exact - 1.001) << value;
  }
}

}  // namespace
}  // namespace nearkv::test
