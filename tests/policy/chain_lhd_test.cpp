// What the learning policy learns.
#include <gtest/gtest.h>

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

TEST(ReuseDensityTest, HardlyHangsOnWhenTheUnusedAreGivenUp) {
  // A class of which one in four is reused after three to four spans. The rest are given up soon
  // after, or as late as ghosts of four times the capacity are.
  double promise[2] = {};
  const std::uint64_t given_up_after[2] = {6 * kSpan, 128 * kSpan};
  for (int variant = 0; variant < 2; ++variant) {
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
  // A quarter is used; three spans are waited by all, and most of a fourth.
  EXPECT_NEAR(promise[0], 0.25 / 3.875, 0.001);
  EXPECT_NEAR(promise[1], promise[0], 0.15 * promise[0]);
}

TEST(ReuseDensityTest, WithdrawnObjectsTeachNothing) {
  ReuseDensity density(2, kCapacityBytes);
  for (std::uint64_t now = 1; now <= 300 * kSpan; ++now) {
    density.advance(now);
    for (const std::size_t object_class : {std::size_t{0}, std::size_t{1}}) {
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

/// Uses the key; 1 if it was held.
std::size_t hit(Tier* tier, Key key, Key parent = Tier::kNoKey) {
  const std::size_t held = tier->holds(key) ? 1 : 0;
  tier->use(key, 1, parent);
  return held;
}

/// Hits on 300 keys amid three times as many uses of keys that never come back.
std::size_t hits_amid_scan(std::string_view policy) {
  Random random = case_random(0);
  Tier tier(policy, 200);
  std::size_t hits = 0;
  for (Key step = 0; step < 40000; ++step) {
    hits += hit(&tier, pick(random, 0, 299));
    for (Key scan = 0; scan < 3; ++scan) tier.use(1000 + 3 * step + scan, 1);
  }
  return hits;
}

TEST(ChainLhdTest, KeepsWhatComesBackAmidAScan) {
  SCOPED_TRACE(case_name(0));
  // Two thirds of the keys would fit.
  EXPECT_GT(hits_amid_scan("chain_lhd"), 40000 * 0.6);
  EXPECT_LT(hits_amid_scan("lru"), 40000 * 0.25);
}

/// Hits on 1,000 blocks of documents, two each, when each request ends in a question of its own.
std::size_t hits_amid_questions(std::string_view policy) {
  Random random = case_random(0);
  Tier tier(policy, 600);
  std::size_t hits = 0;
  for (Key request = 0; request < 20000; ++request) {
    const Key document = pick(random, 0, 499) * 10;
    hits += hit(&tier, document);
    hits += hit(&tier, document + 1, document);
    tier.use(1000000 + request, 1, document + 1);
  }
  return hits;
}

TEST(ChainLhdTest, LearnsThatLastBlocksAreNotSeenAgain) {
  SCOPED_TRACE(case_name(0));
  // 600 of 1,000 is what can be held at best; the first requests hold nothing.
  EXPECT_GT(hits_amid_questions("chain_lhd"), 40000 * 0.56);
  EXPECT_LT(hits_amid_questions("lru"), 40000 * 0.50);
}

}  // namespace
}  // namespace nearkv::test
