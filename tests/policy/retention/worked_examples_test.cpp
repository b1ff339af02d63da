// Each retention policy on a few tokens whose order is worked out by hand from its paper.
#include <gtest/gtest.h>

#include "attention.hpp"

namespace nearkv::test {
namespace {

using Order = std::vector<std::uint32_t>;

std::unique_ptr<RetentionPolicy> with_tokens(std::string_view name, std::uint32_t tokens,
                                             const Parameters& parameters = {}) {
  auto policy = retention(name, parameters);
  EXPECT_NE(policy, nullptr);
  EXPECT_EQ(policy->append(tokens, std::vector<std::uint64_t>(tokens)), Status::kOk);
  return policy;
}

void show(RetentionPolicy* policy, std::vector<float> masses) {
  ASSERT_EQ(policy->observe(attention_to(std::move(masses)).seen()), Status::kOk);
}

TEST(HeavyHittersTest, SumsAttentionOverAllQueries) {
  const auto policy = with_tokens("heavy_hitters", 4);
  show(policy.get(), {0.1F, 0.6F, 0.1F, 0.2F});
  show(policy.get(), {0.1F, 0, 0.8F, 0.1F});
  EXPECT_EQ(order_of(*policy), (Order{2, 1, 3, 0}));
  EXPECT_FLOAT_EQ(worth_of(*policy)[2], 0.9F);
}

TEST(HeavyHittersTest, LetsOldFameFade) {
  const auto policy = with_tokens("heavy_hitters", 2, {{"decay", 0.5F}});
  show(policy.get(), {1, 0});
  show(policy.get(), {0.2F, 0.8F});
  EXPECT_FLOAT_EQ(worth_of(*policy)[0], 0.7F);
  EXPECT_FLOAT_EQ(worth_of(*policy)[1], 0.8F);
}

TEST(HeavyHittersTest, QueryHeadsOfAGroupCountTogetherAsOneQuery) {
  const auto policy = with_tokens("heavy_hitters", 3);
  Attention attention;
  attention.position = 2;
  attention.stride = 2;
  attention.counts = {2, 1};
  attention.ids = {0, 1, 1, 0};
  attention.mass = {0.6F, 0.4F, 1, 0.9F};  // The last one is beyond its row's count.
  ASSERT_EQ(policy->observe(attention.seen()), Status::kOk);
  EXPECT_FLOAT_EQ(worth_of(*policy)[0], 0.3F);
  EXPECT_FLOAT_EQ(worth_of(*policy)[1], 0.7F);
}

TEST(SlidingWindowTest, KeepsTheNewest) {
  const auto policy = with_tokens("sliding_window", 3);
  show(policy.get(), {1, 0, 0});
  EXPECT_EQ(order_of(*policy), (Order{2, 1, 0}));
}

TEST(RedundancyTest, OfCopiesTheNewestStays) {
  const auto policy = retention("redundancy", {{"importance", 0.5F}, {"pool", 1}});
  // Keys of tokens 0, 1 and 3 are alike, that of token 2 lies across: half of its bits differ.
  const std::uint64_t same = 0x5A5A5A5A5A5A5A5A, across = same ^ 0xFFFFFFFF;
  const std::vector<std::uint64_t> sketches{same, same, across, same};
  ASSERT_EQ(policy->append(4, sketches), Status::kOk);
  show(policy.get(), {0.25F, 0.25F, 0.25F, 0.25F});
  // Likeness of newer keys: (1 + 0 + 1) / 3, (0 + 1) / 2, 0, none.
  const std::vector<float> worth = worth_of(*policy);
  EXPECT_NEAR(worth[0], 0.5 - 0.5 * 2 / 3, 1e-6);
  EXPECT_NEAR(worth[1], 0.5 - 0.5 / 2, 1e-6);
  EXPECT_NEAR(worth[2], 0.5, 1e-6);
  EXPECT_NEAR(worth[3], 0.5, 1e-6);
}

}  // namespace
}  // namespace nearkv::test
