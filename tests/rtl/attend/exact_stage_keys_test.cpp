// nkv_exact_stage's scores against the model's exact_score.
#include <gtest/gtest.h>

#include "attend/exact_stage.hpp"

namespace nearkv::rtl_test {
namespace {

std::vector<Integers> random_query(test::Random& random) {
  std::vector<Integers> query;
  for (unsigned row = 0; row < kRows; ++row) {
    query.push_back(random_integers(random, kChannels, kLargestQuery));
  }
  return query;
}

TEST(ExactStageKeysTest, EveryLengthAtEveryPace) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    ExactStage stage;
    for (unsigned words = 1; words <= kWords; ++words) {
      stage.load_query(random_query(random));
      for (unsigned i = 0; i < 300; ++i) {
        stage.key(static_cast<std::uint8_t>(random()),
                  random_integers(random, words * kLanes, kLargestKey));
      }
      stage.run(random, pace);
      stage.check_sums();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ExactStageKeysTest, TheLargestScores) {
  test::Random random = test::case_random(20);
  ExactStage stage;
  std::vector<Integers> query;
  for (unsigned row = 0; row < kRows; ++row) {
    query.emplace_back(kChannels, row % 2 == 0 ? kLargestQuery : -kLargestQuery);
  }
  stage.load_query(query);
  stage.key(1, Integers(kChannels, kLargestKey));
  stage.key(2, Integers(kChannels, -kLargestKey));
  stage.run(random, 8);
  stage.check_sums();
}

TEST(ExactStageKeysTest, MixedWithValuesWordByWord) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(30 + pace);
    ExactStage stage(2);
    stage.load_query(random_query(random));
    for (unsigned page = 0; page < 10; ++page) {
      for (unsigned i = 0; i < 40; ++i) {
        stage.key(static_cast<std::uint8_t>(i), random_integers(random, kChannels, kLargestKey));
        stage.value(random_weights(random),
                    random_integers(random, stage.value_channels(), kLargestValue));
      }
      stage.run(random, pace);
      stage.raise(random_distances(random));
      if (HasFatalFailure()) return;
    }
    stage.check_sums();
  }
}

TEST(ExactStageKeysTest, ResetDropsKeysAndKeepsNothingOfTheirSums) {
  test::Random random = test::case_random(21);
  ExactStage stage;
  stage.load_query(random_query(random));
  for (unsigned i = 0; i < 12; ++i) {
    stage.key(3, random_integers(random, kChannels, kLargestKey));
    stage.run(random, 8);
    stage.restart();
    stage.key(4, random_integers(random, kChannels, kLargestKey));
    stage.run(random, 8);
    stage.check_sums();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
