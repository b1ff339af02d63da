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
        head = {static_cast<std::uint16_t>(pick(random, 0, 4)),
                pick(random, 0, 1000),
                7 * share(),
                share(),
                share(),
                share(),
                pick(random, 0, 9)};
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

TEST(BudgetsTest, CascadeGoesByTheProductOfALayersMeanEntropyAndVariance) {
  const std::vector<HeadDemand> heads{{.layer = 0, .tokens = 1000, .entropy = 1, .variance = 0.1F},
                                      {.layer = 0, .tokens = 1000, .entropy = 3, .variance = 0.1F},
                                      {.layer = 1, .tokens = 1000, .entropy = 4, .variance = 0.2F}};
  // Layers weigh 2 * 0.1 and 4 * 0.2; heads of a layer are alike.
  EXPECT_EQ(shares_of("cascade", heads, 600), (Shares{100, 100, 400}));
  // Square roots: 2 * sqrt(0.1) and 4 * sqrt(0.2) are as 1 to 2.83.
  const Shares flatter = shares_of("cascade", heads, 600, {{"variance_root", 2}});
  EXPECT_NEAR(flatter[2], 600 * 2 * M_SQRT2 / (2 + 2 * M_SQRT2), 1);
}

TEST(BudgetsTest, ALayersShareShrinksAsLayersBehindItCome) {
  std::vector<HeadDemand> heads;
  std::uint32_t first = 600;
  for (std::uint16_t layer = 0; layer < 6; ++layer) {
    heads.push_back({.layer = layer, .tokens = 1000, .entropy = 2, .variance = 0.1F});
    const std::uint32_t now = shares_of("cascade", heads, 600)[0];
    EXPECT_EQ(now, first / (layer + 1U));
  }
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

TEST(BudgetsTest, LayersGetByTheirWeightAndEqualSharesIfNoneHasAny) {
  std::vector<HeadDemand> heads{{.tokens = 1000, .layer_weight = 3},
                                {.tokens = 1000, .layer_weight = 1}};
  EXPECT_EQ(shares_of("layer_weights", heads, 400), (Shares{300, 100}));
  for (HeadDemand& head : heads) head.layer_weight = 0;
  EXPECT_EQ(shares_of("layer_weights", heads, 400), (Shares{200, 200}));
}

TEST(BudgetsTest, WrongRulesParametersAndDemandsAreRefused) {
  Shares shares;
  std::string reason;
  const std::vector<HeadDemand> heads{{.tokens = 10, .entropy = NAN}};
  EXPECT_EQ(share_budget("cake", {}, {}, 10, &shares, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("cascade"), std::string::npos) << reason;
  EXPECT_EQ(share_budget("cascade", {{"tau", 1}}, {}, 10, &shares, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("entropy_root"), std::string::npos) << reason;
  EXPECT_EQ(share_budget("uniform", {}, heads, 10, &shares, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("head 0"), std::string::npos) << reason;
}

}  // namespace
}  // namespace nearkv::test
