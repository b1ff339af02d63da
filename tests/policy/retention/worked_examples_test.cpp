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

void show(RetentionPolicy* policy, std::vector<float> masses, bool is_prompt = false) {
  ASSERT_EQ(policy->observe(attention_to(std::move(masses), is_prompt).seen()), Status::kOk);
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

TEST(PersistenceTest, CountsQueriesToWhichATokenMattered) {
  const auto policy = with_tokens("persistence", 4);
  for (int i = 0; i < 3; ++i) show(policy.get(), {0.3F, 0.2F, 0.3F, 0.2F});  // An even share: 0.25.
  show(policy.get(), {0, 1, 0, 0});                                          // A peak counts once.
  EXPECT_EQ(order_of(*policy), (Order{0, 2, 1, 3}));
  EXPECT_FLOAT_EQ(worth_of(*policy)[0], 3);
  EXPECT_FLOAT_EQ(worth_of(*policy)[1], 1);
}

TEST(PersistenceTest, ForgetsAfterTwoWindowsAtMost) {
  const auto policy = with_tokens("persistence", 2, {{"window", 3}});
  for (int i = 0; i < 3; ++i) show(policy.get(), {1, 0});
  for (int i = 0; i < 3; ++i) show(policy.get(), {0, 1});
  EXPECT_EQ(worth_of(*policy), (std::vector<float>{3, 3}));
  show(policy.get(), {0, 1});
  EXPECT_EQ(worth_of(*policy), (std::vector<float>{0, 4}));
}

TEST(SlidingWindowTest, KeepsTheNewest) {
  const auto policy = with_tokens("sliding_window", 3);
  show(policy.get(), {1, 0, 0});
  EXPECT_EQ(order_of(*policy), (Order{2, 1, 0}));
}

TEST(PromptSelectionTest, TheEndOfThePromptChoosesAndNothingAfterIt) {
  const auto policy = with_tokens("prompt_selection", 5, {{"pool", 1}});
  show(policy.get(), {0.1F, 0.7F, 0, 0.2F, 0}, true);
  ASSERT_EQ(policy->append(2, {}), Status::kOk);
  show(policy.get(), {1, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(order_of(*policy), (Order{6, 5, 1, 3, 0, 2, 4}));
}

TEST(PromptSelectionTest, NeighboursOfAChosenTokenStayWithIt) {
  const auto policy = with_tokens("prompt_selection", 6, {{"pool", 3}});
  show(policy.get(), {0, 0.2F, 0, 0, 0.8F, 0}, true);
  EXPECT_EQ(order_of(*policy), (Order{3, 4, 5, 0, 1, 2}));
}

TEST(PromptSelectionTest, OfAPromptInChunksTheLastWindowChooses) {
  const auto policy = with_tokens("prompt_selection", 4, {{"pool", 1}, {"window", 2}});
  show(policy.get(), {1}, true);
  show(policy.get(), {1, 0}, true);
  show(policy.get(), {0, 1, 0}, true);
  show(policy.get(), {0, 0.4F, 0.6F, 0}, true);
  EXPECT_EQ(order_of(*policy), (Order{1, 2, 0, 3}));
}

TEST(PromptSelectionTest, AForkWithinThePromptGoesOnWithItsOwnPromptAndAnswer) {
  const auto parent = with_tokens("prompt_selection", 8, {{"pool", 1}, {"window", 2}});
  show(parent.get(), {0.9F, 0.1F, 0, 0, 0, 0, 0, 0}, true);
  const auto child = parent->fork(3);
  EXPECT_EQ(order_of(*child), (Order{0, 1, 2})) << "what the parent's prompt asked for, so far";
  ASSERT_EQ(child->append(2, {}), Status::kOk);
  show(child.get(), {0, 0.1F, 0.2F, 0.6F, 0.1F}, true);
  ASSERT_EQ(child->append(2, {}), Status::kOk);
  EXPECT_EQ(order_of(*child), (Order{6, 5, 3, 2, 1, 4, 0}));
}

TEST(ValueProjectionTest, AttentionToAValueAcrossTheOutputIsWorthNothing) {
  const auto policy = with_tokens("value_projection", 3);
  Attention attention = attention_to({0.5F, 0.3F, 0.2F});
  attention.along_output = {0.0F, -1.0F, 2.0F};
  ASSERT_EQ(policy->observe(attention.seen()), Status::kOk);
  EXPECT_EQ(order_of(*policy), (Order{2, 1, 0}));
}

TEST(ImportanceSpreadTest, OfEqualMeansTheOneOnWhichQueriesDisagreeIsWorthMore) {
  const auto policy = with_tokens("importance_spread", 3, {{"pool", 1}, {"variance", 2}});
  show(policy.get(), {0.4F, 0.1F, 0.5F});
  show(policy.get(), {0.4F, 0.7F, 0.1F});
  // Means 0.4, 0.4, 0.3; variances 0, 0.09, 0.04.
  const std::vector<float> worth = worth_of(*policy);
  EXPECT_NEAR(worth[0], 0.4F, 1e-6F);
  EXPECT_NEAR(worth[1], 0.58F, 1e-6F);
  EXPECT_NEAR(worth[2], 0.38F, 1e-6F);
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
