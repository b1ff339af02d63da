// Stability of a head, likeness of keys, and what a prefetch was good for.
#include <gtest/gtest.h>

#include <cmath>

#include "attention.hpp"
#include "nearkv/retention.hpp"

namespace nearkv::test {
namespace {

TEST(HeadStatisticsTest, StabilityIsTheShareOfPagesSelectedAgain) {
  HeadStatistics head(2, 1e9F);
  const auto select = [&](std::vector<std::uint32_t> ids) {
    Attention attention;
    attention.position = 7;
    attention.stride = static_cast<std::uint32_t>(ids.size());
    attention.counts = {attention.stride};
    attention.mass.assign(ids.size(), 0.1F);
    attention.ids = std::move(ids);
    head.observe(attention.seen());
  };
  EXPECT_EQ(head.stability(), 0);
  select({0, 1, 2});  // Pages 0, 1.
  EXPECT_EQ(head.stability(), 0);
  select({1, 3});  // The same pages.
  EXPECT_NEAR(head.stability(), 1, 1e-6);
  select({2, 6});  // Page 1 again, and page 3.
  EXPECT_NEAR(head.stability(), 3.0 / 4, 1e-6);
}

TEST(HeadStatisticsTest, ARestartGoesOnAndAnythingElseIsRefused) {
  Random random = case_random(3);
  HeadStatistics before(64), after(64);
  for (std::uint32_t i = 0; i < 50; ++i) before.observe(random_attention(random, 100 + i).seen());
  const std::vector<std::byte> saved = before.save();
  ASSERT_EQ(after.restore(saved), Status::kOk);
  for (std::uint32_t i = 0; i < 50; ++i) {
    const Attention attention = random_attention(random, 150 + i);
    before.observe(attention.seen());
    after.observe(attention.seen());
  }
  EXPECT_EQ(after.save(), before.save());
  EXPECT_EQ(after.stability(), before.stability());
  EXPECT_EQ(after.queries(), before.queries());

  EXPECT_EQ(HeadStatistics(32).restore(saved), Status::kBadArgument);
  EXPECT_EQ(HeadStatistics(64, 8).restore(saved), Status::kBadArgument);
  const std::vector<std::byte> now = after.save();
  for (std::size_t bytes = 0; bytes < saved.size(); bytes += 1 + bytes / 8) {
    EXPECT_EQ(after.restore(std::span(saved).first(bytes)), Status::kBadArgument);
  }
  for (int i = 0; i < 500; ++i) {
    std::vector<std::byte> flipped = saved;
    flipped[random() % flipped.size()] ^= std::byte(1U << (random() % 8));
    EXPECT_EQ(after.restore(flipped), Status::kBadArgument);
  }
  EXPECT_EQ(after.save(), now);
}

TEST(KeySketchTest, TellsCosinesWithinTheNoiseOf64Bits) {
  Random random = case_random(1);
  std::normal_distribution<float> normal;
  double worst = 0, squares = 0;
  constexpr int kPairs = 400;
  for (int pair = 0; pair < kPairs; ++pair) {
    std::vector<float> a(128), b(128);
    const float mix = static_cast<float>(pair) / kPairs;
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = normal(random);
      b[i] = mix * a[i] + (1 - mix) * normal(random);
      ab += a[i] * b[i];
      aa += a[i] * a[i];
      bb += b[i] * b[i];
    }
    const double error = sketched_cosine(key_sketch(a), key_sketch(b)) - ab / std::sqrt(aa * bb);
    worst = std::max(worst, std::abs(error));
    squares += error * error;
  }
  EXPECT_LT(std::sqrt(squares / kPairs), 0.2);
  EXPECT_LT(worst, 0.8);
  const std::vector<float> key{1, -2.5F, 4.25F};
  const std::vector<float> opposite{-1, 2.5F, -4.25F};
  EXPECT_EQ(sketched_cosine(key_sketch(key), key_sketch(key)), 1);
  EXPECT_EQ(sketched_cosine(key_sketch(key), key_sketch(opposite)), -1);
}

TEST(NextPagesTest, AreTheOnesWorthMostTogether) {
  const std::vector<float> worth{0, 0, 0.2F, 0.2F, 0.3F, 0, 0.4F};
  EXPECT_EQ(next_pages(worth, 2, 2), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(next_pages(worth, 2, 9), (std::vector<std::uint32_t>{1, 3, 2}));
  EXPECT_TRUE(next_pages({}, 2, 9).empty());
}

TEST(PrefetchRecordTest, CountsPagesOnce) {
  PrefetchRecord record;
  EXPECT_EQ(record.coverage(), 0);
  const std::vector<std::uint32_t> fetched{5, 1, 1, 2}, used{2, 2, 3, 5, 7};
  record.add(fetched, used);
  EXPECT_FLOAT_EQ(record.coverage(), 2.0F / 4);
  EXPECT_FLOAT_EQ(record.accuracy(), 2.0F / 3);
}

}  // namespace
}  // namespace nearkv::test
