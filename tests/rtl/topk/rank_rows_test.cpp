// nkv_rank_rows: the best k of every row against the model's ranking, command after command, and
// the cycles in which a candidate waits for the selectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "Vnkv_rank_rows.h"
#include "ranking.hpp"
#include "select/score_patterns.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kEntries = 8192;
constexpr std::uint64_t kScoreMask = (std::uint64_t{1} << 60) - 1;
constexpr unsigned kLimit = 1'000'000;  // Cycles until a test gives up.

using Candidate = model::ScoredToken<std::int64_t>;
using Candidates = std::vector<Candidate>;

class RankRowsTest : public testing::Test {
 protected:
  RankRowsTest() { unit_.reset(); }

  /// A TOPK of `rows` rows, whose candidates come every `period` cycles at the fastest. The scores
  /// behind the first one, which lays the bins, are smaller by a power of two, so that many share a
  /// bin.
  void rank(unsigned rows, unsigned k, unsigned tokens, unsigned period, std::uint64_t before,
            unsigned smaller = 0) {
    const auto& pattern = kScorePatterns[1];
    unit_->clear_i = 1;
    unit_.tick();
    unit_->clear_i = 0;
    unit_->rows_i = static_cast<std::uint8_t>(rows);
    unit_->k_i = static_cast<std::uint16_t>(k);
    unit_.ticks(static_cast<unsigned>(before));

    std::array<Candidates, kRows> candidates;
    waited_ = 0;
    for (std::uint32_t token = 0; token < tokens; ++token) {
      unit_->candidate_i = token;
      for (unsigned row = 0; row < rows; ++row) {
        const std::int64_t score =
            pattern.score(random_, token, tokens) >> (token == 0 ? 0 : smaller);
        candidates[row].push_back({.score = score, .token = token});
        unit_->candidate_score_i[row] = static_cast<std::uint64_t>(score) & kScoreMask;
      }
      unit_->candidate_valid_i = 1;
      const std::uint64_t begin = unit_.cycles();
      ASSERT_TRUE(unit_.tick_until([&] { return unit_->candidate_ready_o != 0; }, kLimit));
      unit_.tick();
      const std::uint64_t cycles = unit_.cycles() - begin;
      waited_ += cycles - 1;
      unit_->candidate_valid_i = 0;
      for (std::uint64_t i = cycles; i < period; ++i) unit_.tick();
    }

    unit_->command_i = 1;
    unit_->command_valid_i = 1;
    ASSERT_TRUE(unit_.tick_until([&] { return unit_->command_ready_o != 0; }, kLimit));
    unit_.tick();
    unit_->command_valid_i = 0;
    ASSERT_TRUE(unit_.tick_until([&] { return unit_->answered_o != 0; }, kLimit));
    for (unsigned row = 0; row < rows; ++row) expect_best(row, candidates[row], k);
  }

  void expect_best(unsigned row, const Candidates& candidates, unsigned k) {
    const Candidates expected = model::best_tokens(candidates, k);
    ASSERT_EQ(unit_->count_o[row], expected.size());
    unit_->out_row_i = static_cast<std::uint8_t>(row);
    unit_->out_ready_i = 1;
    for (const Candidate& best : expected) {
      ASSERT_TRUE(unit_.tick_until([&] { return unit_->out_valid_o != 0; }, kLimit));
      ASSERT_EQ(unit_->out_token_o, best.token) << "row " << row;
      unit_.tick();
    }
    unit_->out_ready_i = 0;
  }

  Simulation<Vnkv_rank_rows> unit_;
  test::Random random_ = test::case_random(1);
  std::uint64_t waited_ = 0;
};

// Whatever was cleared before, the next command's candidates hardly wait for the selectors.
TEST_F(RankRowsTest, CommandAfterCommandHardlyWaits) {
  constexpr unsigned kCommands = 40;
  constexpr unsigned kBefore =
      400;  // Cycles from a command's results to the next one's first score.
  std::uint64_t waited = 0;
  std::uint64_t most = 0;
  rank(kRows, 16, 128, 4, 5000, 6);
  for (unsigned command = 0; command < kCommands; ++command) {
    rank(command % 3 == 0 ? kRows : 1 + command % kRows, 16, 128, 4, kBefore, 6);
    if (HasFatalFailure()) return;
    waited += waited_;
    most = std::max(most, waited_);
  }
  std::printf("  %u commands of 128 tokens: candidates waited %llu cycles, %llu at most\n",
              kCommands, static_cast<unsigned long long>(waited),
              static_cast<unsigned long long>(most));
  EXPECT_LE(most, 8U);
}

// Rows fill at about the same time; while one cuts, so do the others that will have to.
TEST_F(RankRowsTest, RowsCutTogether) {
  struct Case {
    unsigned k;
    unsigned tokens;
  };
  for (const auto& [k, tokens] : {Case{2048, 60000}, Case{4096, 20000}}) {
    rank(kRows, k, tokens, 4, 5000);
    if (HasFatalFailure()) return;
    std::printf("  k %u of %u tokens: candidates waited %llu cycles\n", k, tokens,
                static_cast<unsigned long long>(waited_));
    EXPECT_LE(waited_, kEntries + 100);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
