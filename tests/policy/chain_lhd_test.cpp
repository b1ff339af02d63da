// What the learning policy learns.
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/reuse_density.hpp"
#include "support/seed.hpp"
#include "tier.hpp"

namespace nearkv::test {
namespace {

// One byte a step; a span, the unit of ages, is 100 steps.
constexpr std::uint64_t kCapacityBytes = 3200;
constexpr std::uint64_t kSpan = 100;

/// Each step one object of the class begins to wait and ends `after` steps later, or never.
void run_steps(ReuseDensity* density, std::size_t object_class, std::uint64_t steps,
               std::uint64_t after, bool is_reused) {
  for (std::uint64_t now = 1; now <= steps; ++now) {
    density->advance(now);
    if (now > after) {
      if (is_reused) {
        density->reused(object_class, now - after, 1);
      } else {
        density->given_up(object_class, now - after, 1);
      }
    }
    density->wait(object_class, 1);
  }
}

TEST(ReuseDensityTest, PeaksWhereReuseIsDueAndFallsToNothingBehind) {
  ReuseDensity density(1, kCapacityBytes);
  constexpr std::uint64_t kSteps = 400 * kSpan;
  run_steps(&density, 0, kSteps, 4 * kSpan + 50, true);
  const auto at_age = [&](std::uint64_t spans) { return density.of(0, kSteps - spans * kSpan); };
  // Reuse comes 4 to 5 spans after the last use, halfway on average.
  EXPECT_NEAR(at_age(0), 1 / 4.5, 0.03);
  EXPECT_NEAR(at_age(2), 1 / 2.5, 0.1);
  EXPECT_LT(at_age(0), at_age(2));
  EXPECT_LT(at_age(2), at_age(4));
  EXPECT_EQ(at_age(6), 0);
  EXPECT_EQ(at_age(300), 0);
}

TEST(ReuseDensityTest, DoesNotHangOnWhenTheUnusedAreGivenUp) {
  // A class of which one in four is reused after three spans. The rest are given up soon after,
  // late, or wait still.
  double promise[3] = {};
  const std::uint64_t given_up_after[3] = {6 * kSpan, 60 * kSpan, 100000 * kSpan};
  for (int variant = 0; variant < 3; ++variant) {
    ReuseDensity density(1, kCapacityBytes);
    for (std::uint64_t now = 1; now <= 300 * kSpan; ++now) {
      density.advance(now);
      const std::uint64_t early = now - 3 * kSpan;
      const std::uint64_t late = now - given_up_after[variant];
      if (now > 3 * kSpan && early % 4 == 0) density.reused(0, early, 1);
      if (now > given_up_after[variant] && late % 4 != 0) density.given_up(0, late, 1);
      density.wait(0, 1);
    }
    promise[variant] = density.of(0, 300 * kSpan);
  }
  EXPECT_NEAR(promise[0], 0.25 / 3.5, 0.01);
  EXPECT_NEAR(promise[1], promise[0], 0.1 * promise[0]);
  EXPECT_NEAR(promise[2], promise[0], 0.1 * promise[0]);
}

TEST(ReuseDensityTest, WithdrawnObjectsTeachNothing) {
  ReuseDensity density(2, kCapacityBytes);
  for (std::uint64_t now = 1; now <= 300 * kSpan; ++now) {
    density.advance(now);
    for (const std::size_t object_class : {0, 1}) {
      if (now > 3 * kSpan) density.reused(object_class, now - 3 * kSpan, 1);
      density.wait(object_class, 1);
    }
    // Of the second class as many again are deleted as soon as they are there.
    density.wait(1, 1);
    density.withdrawn(1, now, 1);
  }
  for (std::uint64_t age = 0; age < 40 * kSpan; age += kSpan) {
    EXPECT_EQ(density.of(0, 300 * kSpan - age), density.of(1, 300 * kSpan - age));
  }
}

TEST(ReuseDensityTest, SurvivesJumpsOfTheClock) {
  ReuseDensity density(1, 1);
  density.advance(1);
  density.wait(0, 4096);
  density.advance(1ULL << 40);
  density.wait(0, 4096);
  density.reused(0, 1, 4096);
  density.advance((1ULL << 40) + 100);
  density.given_up(0, 1ULL << 40, 4096);
  EXPECT_GE(density.of(0, 1), 0);
}

/// Hits when a loop over more than the tier holds is repeated.
std::size_t loop_hits(std::string_view policy, Key loop, std::uint64_t capacity) {
  Tier tier(policy, capacity);
  std::size_t hits = 0;
  for (int round = 0; round < 100; ++round) {
    for (Key key = 0; key < loop; ++key) {
      hits += tier.holds(key) ? 1 : 0;
      tier.use(key, 1);
    }
  }
  return hits;
}

TEST(ChainLhdTest, KeepsPartOfALoopThatLruLosesWhole) {
  EXPECT_EQ(loop_hits("lru", 1000, 500), 0U);
  EXPECT_GT(loop_hits("chain_lhd", 1000, 500), 25000U);
}

TEST(ChainLhdTest, LearnsThatLastBlocksAreNotSeenAgain) {
  SCOPED_TRACE(case_name(0));
  Random random = case_random(0);
  // Prompts of three blocks: two of a document, seen again now and then, and one of a question.
  Tier tier("chain_lhd", 600);
  std::size_t questions = 0;
  std::size_t evicted = 0;
  for (Key request = 0; request < 20000; ++request) {
    const Key document = pick(random, 0, 499) * 10;
    const Key question = 1000000 + request;
    std::vector<Key> gone = tier.use(document, 1);
    const auto more = tier.use(document + 1, 1, document);
    gone.insert(gone.end(), more.begin(), more.end());
    const auto last = tier.use(question, 1, document + 1);
    gone.insert(gone.end(), last.begin(), last.end());
    if (request < 10000) continue;
    evicted += gone.size();
    for (const Key key : gone) questions += key >= 1000000 ? 1 : 0;
  }
  ASSERT_GT(evicted, 5000U);
  EXPECT_GT(static_cast<double>(questions), 0.75 * static_cast<double>(evicted));
}

}  // namespace
}  // namespace nearkv::test
