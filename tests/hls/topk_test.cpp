// nearkv_topk against the model's ranking, on the distributions that the RTL's selection is tested
// on.
#include "kernels/topk.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ranking.hpp"
#include "select/score_patterns.hpp"

namespace nearkv::hls_test {
namespace {

using kernels::kLargestK;
using kernels::kRows;
using kernels::kTokens;
using kernels::kTopkTokens;
using rtl_test::kScorePatterns;
using rtl_test::ScorePattern;
using Candidates = std::vector<model::ScoredToken<std::int64_t>>;

/// A list as nearkv_score leaves it, of which some tokens are hidden.
struct Scores {
  Scores(const ScorePattern& pattern, int row, unsigned tokens, unsigned hidden_of_8,
         test::Random& random) {
    const unsigned pages = (tokens + kTokens - 1) / kTokens;
    bursts.resize(std::size_t{pages} * kTokens);
    visible.resize(pages);
    for (unsigned token = 0; token < pages * kTokens; ++token) {
      for (int other = 0; other < kRows; ++other) {
        const std::int64_t score = other == row ? pattern.score(random, token, tokens) : 0;
        kernels::set_part<64>(bursts[token], other, ap_uint<64>(score));
        if (other != row || token >= tokens || random() % 8 < hidden_of_8) continue;
        visible[token / kTokens] |= std::uint64_t{1} << token % kTokens;
        candidates.push_back({.score = score, .token = token});
      }
    }
  }

  std::vector<kernels::Burst> bursts;
  std::vector<std::uint64_t> visible;
  Candidates candidates;
};

void expect_models(const Scores& scores, int row, int k) {
  std::vector<kernels::RankedToken> best(kLargestK);
  const int count = nearkv_topk(scores.bursts.data(), scores.visible.data(),
                                static_cast<int>(scores.visible.size()), row, k, best.data());
  const Candidates expected = model::best_tokens(scores.candidates, static_cast<std::size_t>(k));
  ASSERT_EQ(static_cast<std::size_t>(count), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(best[i].score, expected[i].score) << "place " << i;
    ASSERT_EQ(best[i].token, expected[i].token) << "place " << i;
  }
}

class TopkTest : public testing::TestWithParam<ScorePattern> {};

TEST_P(TopkTest, FindsTheBestInOrder) {
  unsigned number = 0;
  for (const int k : {1, 2, 5, 256, kLargestK - 1, kLargestK}) {
    for (const unsigned tokens : {1U, static_cast<unsigned>(k), static_cast<unsigned>(k) + 1,
                                  2U * static_cast<unsigned>(k) + 3, 9000U}) {
      SCOPED_TRACE(testing::Message() << "k " << k << " of " << tokens);
      test::Random random = test::case_random(++number);
      const int row = static_cast<int>(number) % kRows;
      expect_models(Scores(GetParam(), row, tokens, number % 4, random), row, k);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(TopkTest, TheLongestList) {
  test::Random random = test::case_random(100);
  expect_models(Scores(GetParam(), 3, kTopkTokens, 0, random), 3, 2048);
}

TEST_P(TopkTest, NothingVisible) {
  test::Random random = test::case_random(101);
  expect_models(Scores(GetParam(), 0, 128, 8, random), 0, 16);
}

INSTANTIATE_TEST_SUITE_P(Patterns, TopkTest, testing::ValuesIn(kScorePatterns),
                         [](const auto& pattern) {
                           std::string name = pattern.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace nearkv::hls_test
