// Shares of a budget: never more than there is, never more than a head has, and as each rule says.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "nearkv/retention.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Shares = std::vector<std::uint32_t>;

Shares shares_of(std::string_view rule, const std::vector<HeadDemand>& heads, std::uint64_t total,
                 const Parameters& parameters = {}) {
  Shares shares;
  std::string reason;
  EXPECT_EQ(share_budget(rule, parameters, heads, total, &shares, &reason), Status::kOk) << reason;
  return shares;
}

TEST(BudgetsTest, HoldForAnyDemand) {
  for (const NamedBudget& rule : shipped_budgets()) {
    SCOPED_TRACE(rule.name);
    for (std::uint64_t number = 0; number < 500; ++number) {
      SCOPED_TRACE(case_name(number));
      Random random = case_random(number);
      std::vector<HeadDemand> heads(pick(random, 0, 40));
      std::uint64_t there = 0;
      for (HeadDemand& head : heads) {
        const auto share = [&] { return static_cast<float>(pick(random, 0, 10)) / 10; };
        head = {pick(random, 0, 1000), share(), pick(random, 0, 9)};
        there += head.tokens;
      }
      const std::uint64_t total = random() % 4 == 0 ? there + 5 : pick(random, 0, 20000);
      const Shares shares = shares_of(rule.name, heads, total);
      ASSERT_EQ(shares.size(), heads.size());
      for (std::size_t i = 0; i < heads.size(); ++i) EXPECT_LE(shares[i], heads[i].tokens) << i;
      EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}),
                std::min(total, there));
      EXPECT_EQ(shares_of(rule.name, heads, total), shares);
    }
  }
}

TEST(BudgetsTest, UniformGivesEqualsWhatIsLeftOverByFullHeads) {
  const std::vector<HeadDemand> heads{{.tokens = 10}, {.tokens = 100}, {.tokens = 100}};
  EXPECT_EQ(shares_of("uniform", heads, 91), (Shares{10, 41, 40}));
}

TEST(BudgetsTest, UnstableHeadsGetMore) {
  const std::vector<HeadDemand> heads{{.tokens = 1000, .stability = 0.9F},
                                      {.tokens = 1000, .stability = 0.5F}};
  EXPECT_EQ(shares_of("stable_heads", heads, 500), (Shares{100, 400}));
  EXPECT_EQ(shares_of("stable_heads", heads, 1400), (Shares{400, 1000}));
  EXPECT_EQ(shares_of("stable_heads", heads, 500, {{"stable", 0.95F}}), (Shares{250, 250}));
}

TEST(BudgetsTest, SequencesWhoseAgentRunsSoonGetMore) {
  const std::vector<HeadDemand> heads{{.tokens = 1000, .steps_to_next_use = 0},
                                      {.tokens = 1000, .steps_to_next_use = 3}};
  EXPECT_EQ(shares_of("workflow", heads, 500), (Shares{400, 100}));
  EXPECT_EQ(shares_of("workflow", heads, 500, {{"power", 0}}), (Shares{250, 250}));
}

TEST(BudgetsTest, WrongRulesParametersAndDemandsAreRefused) {
  Shares shares;
  std::string reason;
  const std::vector<HeadDemand> heads{{.tokens = 10, .stability = NAN}};
  EXPECT_EQ(share_budget("cake", {}, {}, 10, &shares, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("stable_heads"), std::string::npos) << reason;
  EXPECT_EQ(share_budget("stable_heads", {{"tau", 1}}, {}, 10, &shares, &reason),
            Status::kBadArgument);
  EXPECT_NE(reason.find("times"), std::string::npos) << reason;
  EXPECT_EQ(share_budget("uniform", {}, heads, 10, &shares, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("head 0"), std::string::npos) << reason;
}

}  // namespace
}  // namespace nearkv::test
