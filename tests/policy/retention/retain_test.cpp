// A budget is kept to, protected tokens stay, the best of the others do, and ties go to the
// earlier.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "nearkv/retention.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Pinned = std::vector<std::uint32_t>;

Retained kept_of(std::vector<float> worth, const RetentionBudget& budget,
                 const Pinned& pinned = {}) {
  Retained retained;
  EXPECT_EQ(retain(worth, budget, pinned, &retained), Status::kOk);
  return retained;
}

std::vector<std::uint32_t> tokens_of(const Retained& retained, Kept how) {
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < retained.tokens.size(); ++i) {
    if (retained.tokens[i] == how) tokens.push_back(i);
  }
  return tokens;
}

TEST(RetainTest, TheBestStayTheNextBestAreDemotedTheRestGoes) {
  const Retained kept =
      kept_of({0.1F, 0.5F, 0.3F, 0.2F, 0.4F}, {.exact_tokens = 2, .demoted_tokens = 1});
  EXPECT_EQ(tokens_of(kept, Kept::kExact), (Pinned{1, 4}));
  EXPECT_EQ(tokens_of(kept, Kept::kDemoted), (Pinned{2}));
  EXPECT_EQ(tokens_of(kept, Kept::kAbsent), (Pinned{0, 3}));
}

TEST(RetainTest, TheEarlierOfEqualsStays) {
  EXPECT_EQ(tokens_of(kept_of({1, 1, 1, 1}, {.exact_tokens = 2}), Kept::kExact), (Pinned{0, 1}));
}

TEST(RetainTest, SinksRecentAndPinnedTokensStayWhateverTheyAreWorth) {
  const RetentionBudget budget{.exact_tokens = 5, .sinks = 1, .recent = 2};
  const Retained kept = kept_of({0, 9, 8, 0, 7, 6, 0, 0}, budget, {3});
  EXPECT_EQ(tokens_of(kept, Kept::kExact), (Pinned{0, 1, 3, 6, 7}));
  EXPECT_EQ(kept.beyond_budget, 0U);
}

TEST(RetainTest, ABudgetOfNothingKeepsNothingButWhatIsProtected) {
  EXPECT_EQ(kept_of({1, 2, 3}, {}).exact, 0U);
  const Retained kept = kept_of({1, 2, 3}, {.sinks = 1}, {2});
  EXPECT_EQ(tokens_of(kept, Kept::kExact), (Pinned{0, 2}));
  EXPECT_EQ(kept.beyond_budget, 2U);
}

TEST(RetainTest, WhereAllIsPinnedAllStaysAndTheExcessIsTold) {
  const Retained kept = kept_of({1, 2, 3, 4}, {.exact_tokens = 1}, {0, 1, 2, 3});
  EXPECT_EQ(kept.exact, 4U);
  EXPECT_EQ(kept.beyond_budget, 3U);
}

TEST(RetainTest, NoTokensAndOneToken) {
  EXPECT_TRUE(kept_of({}, {.exact_tokens = 3, .sinks = 4, .recent = 4}).tokens.empty());
  EXPECT_EQ(kept_of({0}, {.exact_tokens = 1, .sinks = 4, .recent = 4}).exact, 1U);
}

TEST(RetainTest, PagesStayOrGoAsAWhole) {
  // Pages of two: means 2, 5, 3, and a last one with a single token.
  const RetentionBudget budget{.exact_tokens = 3, .demoted_tokens = 2, .grain = 2};
  const Retained kept = kept_of({4, 0, 5, 5, 6, 0, 4}, budget);
  EXPECT_EQ(tokens_of(kept, Kept::kExact), (Pinned{2, 3, 6}));
  EXPECT_EQ(tokens_of(kept, Kept::kDemoted), (Pinned{4, 5}));
}

TEST(RetainTest, WrongInputIsRefused) {
  Retained kept;
  const std::vector<float> worth{1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(retain(worth, {.exact_tokens = 1}, {}, &kept), Status::kBadArgument);
  EXPECT_EQ(retain(std::span(worth).first(1), {.grain = 0}, {}, &kept), Status::kBadArgument);
  const Pinned missing{1};
  EXPECT_EQ(retain(std::span(worth).first(1), {}, missing, &kept), Status::kBadArgument);
}

TEST(RetainTest, HoldsForAnyWorthBudgetAndPins) {
  for (std::uint64_t number = 0; number < 2000; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    std::vector<float> worth(pick(random, 0, 200));
    for (float& one : worth) one = static_cast<float>(pick(random, 0, 20));
    const RetentionBudget budget{.exact_tokens = pick(random, 0, 100),
                                 .demoted_tokens = pick(random, 0, 100),
                                 .sinks = pick(random, 0, 4),
                                 .recent = pick(random, 0, 20),
                                 .grain = random() % 2 == 0 ? 1 : pick(random, 1, 64)};
    Pinned pinned;
    if (!worth.empty()) {
      const auto last = static_cast<std::uint32_t>(worth.size()) - 1;
      for (std::uint32_t i = pick(random, 0, 5); i > 0; --i)
        pinned.push_back(pick(random, 0, last));
    }
    const Retained kept = kept_of(worth, budget, pinned);
    ASSERT_EQ(kept.tokens.size(), worth.size());
    EXPECT_EQ(tokens_of(kept, Kept::kExact).size(), kept.exact);
    EXPECT_EQ(tokens_of(kept, Kept::kDemoted).size(), kept.demoted);
    EXPECT_LE(kept.exact, budget.exact_tokens + kept.beyond_budget);
    EXPECT_LE(kept.exact + kept.demoted,
              budget.exact_tokens + budget.demoted_tokens + kept.beyond_budget);
    for (const std::uint32_t token : pinned) EXPECT_EQ(kept.tokens[token], Kept::kExact);
    for (std::size_t i = 0; i < worth.size(); ++i) {
      const bool is_protected = i < budget.sinks || i + budget.recent >= worth.size();
      if (is_protected) {
        EXPECT_EQ(kept.tokens[i], Kept::kExact) << i;
      }
    }
    if (budget.grain > 1) continue;
    // Of tokens that nothing protects, none is kept better than one that is worth more.
    for (std::size_t i = 0; i < worth.size(); ++i) {
      for (std::size_t j = 0; j < worth.size(); ++j) {
        if (worth[i] <= worth[j] || kept.tokens[i] <= kept.tokens[j]) continue;
        const bool is_protected = j < budget.sinks || j + budget.recent >= worth.size() ||
                                  std::ranges::find(pinned, j) != pinned.end();
        EXPECT_TRUE(is_protected) << i << " is worth more than " << j;
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::test
