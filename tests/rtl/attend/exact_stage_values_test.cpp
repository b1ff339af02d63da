// nkv_exact_stage's sums of values against section 4, with the model's weights and shifts.
#include <gtest/gtest.h>

#include "attend/exact_stage.hpp"

namespace nearkv::rtl_test {
namespace {

TEST(ExactStageValuesTest, EveryLengthAtEveryPace) {
  for (unsigned words = 1; words <= kWords; ++words) {
    for (const unsigned pace : kPaces) {
      test::Random random = test::case_random(words * 16 + pace);
      ExactStage stage(words);
      for (unsigned i = 0; i < 100; ++i) {
        stage.value(random_weights(random),
                    random_integers(random, stage.value_channels(), kLargestValue));
      }
      stage.run(random, pace);
      stage.check_sums();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ExactStageValuesTest, EveryShiftOfTheLargestProducts) {
  test::Random random = test::case_random(1);
  for (const std::int32_t value : {kLargestValue, -kLargestValue, 1, -1}) {
    ExactStage stage(2);
    for (std::int64_t shift = 0; shift < 44; ++shift) {
      Weights weights;
      for (unsigned row = 0; row < kRows; ++row) {
        weights[row] = {.mantissa = row % 2 == 0 ? (1 << 18) - 1 : 1 << 17, .shift = shift};
      }
      stage.value(weights, Integers(stage.value_channels(), value));
    }
    stage.run(random, 8);
    stage.check_sums();
  }
}

TEST(ExactStageValuesTest, LongestListOfTheLargestProducts) {
  test::Random random = test::case_random(4);
  for (const std::int32_t value : {kLargestValue, -kLargestValue}) {
    ExactStage stage(1);
    Weights weights;
    weights.fill({.mantissa = (1 << 18) - 1, .shift = 0});
    for (unsigned i = 0; i < kListTokens; ++i) {
      stage.value(weights, Integers(stage.value_channels(), value));
    }
    stage.run(random, 8);
    stage.check_sums();
  }
}

TEST(ExactStageValuesTest, RaisesBetweenTokens) {
  for (unsigned words = 1; words <= kWords; ++words) {
    test::Random random = test::case_random(words);
    ExactStage stage(words);
    for (unsigned i = 0; i < 100; ++i) {
      stage.value(random_weights(random),
                  random_integers(random, stage.value_channels(), kLargestValue));
      stage.run(random, 8);
      if (i % 3 == 0) stage.raise(random_distances(random));
      if (i % 20 == 0) stage.check_sums();
      if (HasFatalFailure()) return;
    }
    stage.check_sums();
  }
}

TEST(ExactStageValuesTest, SumsThatWereSetAsideAreReadWhileOthersGrow) {
  for (unsigned words = 1; words <= kWords; ++words) {
    for (const unsigned pace : kPaces) {
      test::Random random = test::case_random(words * 16 + pace);
      ExactStage stage(words);
      for (unsigned round = 0; round < 4; ++round) {
        for (unsigned i = 0; i < 30; ++i) {
          stage.value(random_weights(random),
                      random_integers(random, stage.value_channels(), kLargestValue));
          stage.run(random, pace);
          if (random() % 8 == 0) stage.raise(random_distances(random));
          if (round != 0 && i == 3) stage.read_aside();
        }
        while (!stage.aside_is_read() && !HasFatalFailure()) {
          stage.value(random_weights(random),
                      random_integers(random, stage.value_channels(), kLargestValue));
          stage.run(random, 5);
        }
        stage.check_sums();
        stage.set_aside();
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ExactStageValuesTest, WhatClearsAndRaisesTake) {
  constexpr unsigned kPassesOfSeven = 4;  // By 4, then thrice by 1.
  for (unsigned words = 1; words <= kWords; ++words) {
    ExactStage stage(words);
    EXPECT_EQ(stage.cycles_until_ready(), 1 + words);
    Distances distances{};
    distances[3] = 7;
    stage.raise(distances);
    EXPECT_EQ(stage.cycles_until_ready(), 1 + kPassesOfSeven * words);
  }
}

TEST(ExactStageValuesTest, EveryRaise) {
  test::Random random = test::case_random(2);
  ExactStage stage;
  for (unsigned distance = 0; distance < 64; ++distance) {
    stage.clear();
    stage.value(random_weights(random),
                random_integers(random, stage.value_channels(), kLargestValue));
    stage.run(random, 8);
    Distances distances{};
    distances.fill(distance);
    distances[distance % kRows] = 63 - distance;
    stage.raise(distances);
    stage.check_sums();
    if (HasFatalFailure()) return;
  }
}

TEST(ExactStageValuesTest, ClearForgetsSumsAndResetWhatIsInFlight) {
  test::Random random = test::case_random(3);
  ExactStage stage(3);
  for (unsigned i = 0; i < 20; ++i) {
    stage.value(random_weights(random),
                random_integers(random, stage.value_channels(), kLargestValue));
    stage.run(random, 8);
    if (i % 2 == 0) {
      stage.clear();
    } else {
      stage.restart();
    }
    stage.check_sums();
    if (HasFatalFailure()) return;
  }
  stage.raise(random_distances(random));
  stage.value(random_weights(random),
              random_integers(random, stage.value_channels(), kLargestValue));
  stage.run(random, 8);
  stage.check_sums();
}

}  // namespace
}  // namespace nearkv::rtl_test
