// nkv_select against the model's ranking: whatever the order and distribution of the scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "Vnkv_select.h"
#include "ranking.hpp"
#include "select/score_patterns.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Candidate = model::ScoredToken<std::int64_t>;
using Candidates = std::vector<Candidate>;

constexpr unsigned kEntries = NEARKV_SELECT_ENTRIES;
constexpr unsigned kLargestK = kEntries / 2;
constexpr std::uint64_t kScoreMask = (std::uint64_t{1} << 60) - 1;
constexpr unsigned kLimit = 1'000'000;  // Cycles until a test gives up.

enum Command : std::uint8_t { kStart, kFinish };

// What a row answered, and how long it took.
struct Result {
  Candidates best;
  std::uint64_t cut_cycles = 0;
  std::uint64_t all_cycles = 0;
};

class Row {
 public:
  explicit Row(std::uint64_t number = 0) : random_(test::case_random(number)) { row_.reset(); }

  void start(unsigned k, Binning binning) {
    row_->k_i = static_cast<std::remove_reference_t<decltype(row_->k_i)>>(k);
    row_->reference_i = static_cast<std::uint32_t>(binning.reference) & 0x7fffffff;
    row_->shift_i = static_cast<std::uint8_t>(binning.shift);
    command(kStart);
  }

  // Offers candidates `pace` times of 8.
  void feed(const Candidates& candidates, unsigned pace = 8) {
    for (const Candidate& candidate : candidates) {
      while (!is_willing(random_, pace)) row_.tick();
      row_->held_i = random_() % 256 == 0;
      row_->in_valid_i = 1;
      row_->in_score_i = static_cast<std::uint64_t>(candidate.score) & kScoreMask;
      row_->in_token_i = candidate.token;
      ASSERT_TRUE(row_.tick_until([&] { return row_->in_ready_o != 0; }, kLimit));
      row_.tick();
      row_->in_valid_i = 0;
    }
  }

  // Offers a candidate every so many cycles, later where it has to wait.
  void feed_every(unsigned period, const Candidates& candidates) {
    std::uint64_t due = row_.cycles();
    for (const Candidate& candidate : candidates) {
      while (row_.cycles() < due) row_.tick();
      feed({candidate});
      due = std::max(due + period, row_.cycles());
    }
  }

  Result finish(unsigned pace = 8) {
    Result result;
    command(kFinish);
    const std::uint64_t begin = row_.cycles();
    EXPECT_TRUE(row_.tick_until([&] { return row_->answer_valid_o != 0; }, kLimit));
    result.cut_cycles = row_.cycles() - begin;
    const unsigned count = row_->answer_count_o;
    row_.tick();
    while (result.best.size() < count) {
      row_->out_ready_i = is_willing(random_, pace);
      row_.settle();
      if (row_->out_valid_o && row_->out_ready_i) {
        result.best.push_back(
            {.score = signed_score(row_->out_score_o), .token = row_->out_token_o});
        EXPECT_EQ(row_->out_last_o, result.best.size() == count);
      }
      row_.tick();
      if (row_.cycles() - begin > kLimit) {
        ADD_FAILURE() << "results stop";
        break;
      }
    }
    row_->out_ready_i = 0;
    result.all_cycles = row_.cycles() - begin;
    return result;
  }

  void reset() { row_.reset(); }
  [[nodiscard]] std::uint64_t cycles() const { return row_.cycles(); }
  test::Random& random() { return random_; }

 private:
  static std::int64_t signed_score(std::uint64_t bits) {
    return static_cast<std::int64_t>(bits << 4) >> 4;
  }

  void command(Command command) {
    row_->command_i = command;
    row_->command_valid_i = 1;
    ASSERT_TRUE(row_.tick_until([&] { return row_->command_ready_o != 0; }, kLimit));
    row_.tick();
    row_->command_valid_i = 0;
  }

  Simulation<Vnkv_select> row_;
  test::Random random_;
};

bool operator==(const Candidate& a, const Candidate& b) {
  return a.score == b.score && a.token == b.token;
}

void expect_best(const Result& result, const Candidates& candidates, unsigned k) {
  const Candidates expected = model::best_tokens(candidates, k);
  ASSERT_EQ(result.best.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(result.best[i] == expected[i])
        << "place " << i << ": score " << result.best[i].score << " token " << result.best[i].token
        << " instead of " << expected[i].score << ", " << expected[i].token;
  }
}

// Tokens in a random order, as far as a list may have them.
Candidates candidates_of(const ScorePattern& pattern, test::Random& random, unsigned count) {
  std::vector<std::uint32_t> tokens(std::max(count, 1U << 16));
  std::iota(tokens.begin(), tokens.end(), random() % 2 == 0 ? 0U : (1U << 20) - (1U << 16));
  if (tokens.size() > 1U << 16) std::iota(tokens.begin(), tokens.end(), 0U);
  if (random() % 2 == 0) std::shuffle(tokens.begin(), tokens.end(), random);
  Candidates candidates;
  for (unsigned i = 0; i < count; ++i) {
    candidates.push_back({.score = pattern.score(random, i, count), .token = tokens[i]});
  }
  return candidates;
}

class SelectTest : public testing::TestWithParam<ScorePattern> {};

TEST_P(SelectTest, FindsTheBestInOrder) {
  unsigned number = 0;
  for (const unsigned k : {1U, 2U, 5U, kLargestK / 8, kLargestK - 1, kLargestK}) {
    for (const unsigned count : {k - 1, k, k + 1, 2 * k + 3, kEntries + 1, 3 * kEntries}) {
      SCOPED_TRACE(testing::Message() << "k " << k << " of " << count);
      Row row(++number);
      const Candidates candidates = candidates_of(GetParam(), row.random(), count);
      row.start(k, GetParam().binning);
      row.feed(candidates);
      expect_best(row.finish(number % 3 == 0 ? 5 : 8), candidates, k);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, SelectTest, testing::ValuesIn(kScorePatterns),
                         [](const auto& pattern) {
                           std::string name = pattern.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(SelectRowTest, ServesQueryAfterQuery) {
  Row row(1);
  for (unsigned query = 0; query < 8; ++query) {
    const ScorePattern& pattern = kScorePatterns[query % std::size(kScorePatterns)];
    const unsigned k = test::pick(row.random(), 1, kLargestK);
    const Candidates candidates =
        candidates_of(pattern, row.random(), test::pick(row.random(), 0, 2 * kEntries));
    SCOPED_TRACE(testing::Message() << pattern.name << ": k " << k << " of " << candidates.size());
    row.start(k, pattern.binning);
    row.feed(candidates);
    expect_best(row.finish(), candidates, k);
    if (HasFatalFailure()) return;
  }
}

TEST(SelectRowTest, AnIdleRowFindsNothing) {
  Row row;
  EXPECT_TRUE(row.finish().best.empty());
  row.start(3, {});
  EXPECT_TRUE(row.finish().best.empty());
}

// What an earlier query left in the store ranks above all that comes.
TEST(SelectRowTest, FewCandidatesAfterManyBetterOnes) {
  Row row(1);
  for (unsigned count = 1; count < 40; ++count) {
    Candidates high = candidates_of(kScorePatterns[0], row.random(), kLargestK);
    for (Candidate& candidate : high) candidate.score = kLargestScore - candidate.token;
    row.start(kLargestK, {});
    row.feed(high);
    expect_best(row.finish(), high, kLargestK);
    const Candidates low = candidates_of(kScorePatterns[4], row.random(), count);
    row.start(kLargestK, {});
    row.feed(low);
    expect_best(row.finish(), low, kLargestK);
    if (HasFatalFailure()) return;
  }
}

TEST(SelectRowTest, StartAndResetForgetWhatCame) {
  Row row(1);
  const Candidates high = candidates_of(kScorePatterns[0], row.random(), kEntries);
  Candidates low = high;
  for (Candidate& candidate : low) candidate.score = candidate.score / 4 - kLargestScore / 2;
  row.start(kLargestK, kScorePatterns[0].binning);
  row.feed(high);
  row.start(7, kScorePatterns[0].binning);
  row.feed(low);
  expect_best(row.finish(), low, 7);

  row.start(kLargestK, kScorePatterns[0].binning);
  row.feed(high);
  row.reset();
  row.start(9, kScorePatterns[0].binning);
  row.feed(low);
  expect_best(row.finish(), low, 9);
}

// The costs that the header of nkv_select states, of passes over scores that are all the same.
TEST(SelectRowTest, ACutCostsItsPasses) {
  for (const unsigned count : {kLargestK + 1, kLargestK + kLargestK / 2}) {
    Row row(1);
    const Candidates equal = candidates_of(kScorePatterns[4], row.random(), count);
    row.start(kLargestK, kScorePatterns[4].binning);
    row.feed(equal);
    const Result result = row.finish();
    expect_best(result, equal, kLargestK);
    EXPECT_LE(result.cut_cycles, 5 * (count + 90) + count + 25);
    EXPECT_GE(result.cut_cycles, count);
  }
}

// Few that are too many are sorted with the others, and the threshold does not climb bin by bin.
TEST(SelectRowTest, FinishHardlyCuts) {
  constexpr unsigned kChosen = 16;
  for (const bool far_below : {false, true}) {
    Row row(1);
    Candidates candidates = candidates_of(kScorePatterns[1], row.random(), 256);
    if (far_below) candidates.front().score = -kLargestScore;
    row.start(kChosen, kScorePatterns[1].binning);
    row.feed(candidates);
    const Result result = row.finish();
    expect_best(result, candidates, kChosen);
    EXPECT_LE(result.cut_cycles, 256U + 25 + 200);
    row.start(kChosen, kScorePatterns[1].binning);
    candidates.resize(kChosen + 16);
    row.feed(candidates);
    const Result sorted = row.finish();
    expect_best(sorted, candidates, kChosen);
    EXPECT_LE(sorted.cut_cycles, 210U);
  }
}

// A full scan: a token's score every 4 cycles, and a threshold that keeps up with it.
TEST(SelectRowTest, AScanHardlyWaits) {
  constexpr unsigned kTokens = 4 * kEntries;
  for (const unsigned k : {kLargestK / 16, kLargestK / 2, kLargestK}) {
    Row row(1);
    const Candidates candidates = candidates_of(kScorePatterns[1], row.random(), kTokens);
    row.start(k, kScorePatterns[1].binning);
    const std::uint64_t begin = row.cycles();
    row.feed_every(4, candidates);
    const std::uint64_t cycles = row.cycles() - begin;
    std::printf("k %u of %u: %.3f cycles per token\n", k, kTokens,
                static_cast<double>(cycles) / kTokens);
    EXPECT_LT(cycles, kTokens * 4 * 3 / 2);
    expect_best(row.finish(), candidates, k);
  }
}

TEST(SelectRowTest, CostDoesNotGrowWithK) {
  for (const unsigned k : {kLargestK / 64, kLargestK / 8, kLargestK / 2, kLargestK}) {
    Row row(1);
    const Candidates candidates = candidates_of(kScorePatterns[1], row.random(), kEntries - 20);
    row.start(k, kScorePatterns[1].binning);
    row.feed(candidates, 2);
    const Result result = row.finish();
    expect_best(result, candidates, k);
    // One pass for the digits and one for the cut over what is stored, at most kEntries - 16.
    EXPECT_LT(result.cut_cycles, 2U * kEntries + 400);
    std::printf("k %u of %zu: cut %lu cycles, all %lu\n", k, candidates.size(),
                static_cast<unsigned long>(result.cut_cycles),
                static_cast<unsigned long>(result.all_cycles));
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
