// nkv_sample_levels against the model's levels, and counts of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "Vnkv_sample_levels.h"
#include "sampling.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::size_t kRows = 8;
constexpr std::size_t kTokens = 4;
constexpr unsigned kLatency = 4;
constexpr unsigned kClearCycles = 153;
constexpr std::int64_t kLogitLimit = (std::int64_t{1} << 47) - 1;
constexpr std::uint64_t kLogitMask = (std::uint64_t{1} << 48) - 1;

using Levels = std::array<std::array<int, kTokens>, kRows>;

class SampleLevels : public Simulation<Vnkv_sample_levels> {
 public:
  SampleLevels() {
    (*this)->valid_i = 0;
    (*this)->clear_i = 0;
    reset();
  }

  void start(test::Random& random) {
    for (std::size_t row = 0; row < kRows; ++row) {
      references_[row] = static_cast<std::int32_t>(random()) >> test::pick(random, 0, 31);
      (*this)->reference_i[row] = static_cast<std::uint32_t>(references_[row]);
      counts_[row].fill(0);
    }
    counted_ = {};
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kClearCycles));
  }

  void offer(test::Random& random, int near) {
    const unsigned counts = test::pick(random, 0, 15);
    Levels levels{};
    (*this)->valid_i = 1;
    (*this)->counts_i = static_cast<std::uint8_t>(counts);
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        const std::int64_t top = (std::int64_t{references_[row]} + 1) * 65536 - 1;
        const auto below = static_cast<std::int64_t>(random() >> 17 >> near);
        const std::int64_t logit = std::clamp(top - below, -kLogitLimit, kLogitLimit);
        (*this)->logit_i[row][t] = static_cast<std::uint64_t>(logit) & kLogitMask;
        levels[row][t] = model::Levels::of(logit, references_[row]);
        if ((counts >> t & 1) != 0) ++counts_[row][static_cast<std::size_t>(levels[row][t])];
      }
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
      if ((counts >> t & 1) == 0) continue;
      std::array<int, kRows> token{};
      for (std::size_t row = 0; row < kRows; ++row) token[row] = levels[row][t];
      counted_[t].push_back(token);
    }
    due_.push_back(levels);
    step(true);
  }

  void idle() {
    (*this)->valid_i = 0;
    step(false);
  }

  /// Takes back some of what was counted.
  void remove(test::Random& random, unsigned cycles) {
    for (unsigned i = 0; i <= kLatency; ++i) idle();
    for (unsigned i = 0; i < cycles; ++i) {
      unsigned removed = 0;
      for (std::size_t t = 0; t < kTokens; ++t) {
        // Of each row some token that this lane has counted.
        const auto& lane = counted_[t];
        if (lane.empty() || random() % 4 == 0) continue;
        removed |= 1U << t;
        const auto at = static_cast<std::ptrdiff_t>(random() % lane.size());
        for (std::size_t row = 0; row < kRows; ++row) {
          const auto level = static_cast<std::size_t>(lane[static_cast<std::size_t>(at)][row]);
          (*this)->remove_level_i[row][t] = static_cast<std::uint8_t>(level);
          --counts_[row][level];
        }
        counted_[t].erase(counted_[t].begin() + at);
      }
      (*this)->remove_i = static_cast<std::uint8_t>(removed);
      tick();
    }
    (*this)->remove_i = 0;
  }

  /// Lets all tokens be counted, and reads every count.
  void check_counts() {
    for (unsigned i = 0; i <= kLatency; ++i) idle();
    ASSERT_TRUE(due_.empty());
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t level = 0; level < counts_[row].size(); ++level) {
        (*this)->read_row_i = static_cast<std::uint8_t>(row);
        (*this)->read_level_i = static_cast<std::uint8_t>(level);
        tick();
        ASSERT_EQ((*this)->count_o, counts_[row][level]) << "row " << row << " level " << level;
      }
    }
  }

 private:
  void step(bool is_valid) {
    valid_.push_back(is_valid);
    tick();
    if (valid_.size() < kLatency) return;
    const bool expected = valid_.front();
    valid_.pop_front();
    ASSERT_EQ((*this)->valid_o != 0, expected);
    if (!expected) return;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        ASSERT_EQ((*this)->level_o[row][t], due_.front()[row][t]);
      }
    }
    due_.pop_front();
  }

  std::array<std::int64_t, kRows> references_{};
  std::array<std::array<std::uint32_t, model::Levels::kLevels>, kRows> counts_{};
  std::array<std::vector<std::array<int, kRows>>, kTokens> counted_;  // By lane.
  std::deque<bool> valid_;
  std::deque<Levels> due_;
};

TEST(SampleLevelsTest, LevelsAndCountsAreTheModels) {
  test::Random random = test::case_random(0);
  SampleLevels unit;
  for (int round = 0; round < 40 && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    unit.start(random);
    // From logits anywhere to all of them in a few levels, again and again.
    const int near = round % 4 == 0 ? 0 : static_cast<int>(test::pick(random, 22, 36));
    for (unsigned i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
      while (round % 2 == 1 && test::pick(random, 0, 2) == 0) unit.idle();
      unit.offer(random, near);
    }
    unit.check_counts();
    unit.remove(random, round % 3 == 0 ? 200 : 3);
    unit.check_counts();
  }
}

TEST(SampleLevelsTest, AResetForgets) {
  test::Random random = test::case_random(1);
  SampleLevels unit;
  for (int round = 0; round < 5 && !testing::Test::HasFatalFailure(); ++round) {
    unit.start(random);
    for (unsigned i = 0; i < 20; ++i) unit.offer(random, 24);
    unit.check_counts();
    unit.reset();
    ASSERT_EQ(unit->ready_o, 0);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
