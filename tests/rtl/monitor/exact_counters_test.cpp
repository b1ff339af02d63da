// nkv_chmu_exact against plain counting, access by access: every distance between two accesses of a
// unit, epochs between them, tags that repeat.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>

#include "Vnkv_chmu_exact.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Counters = Simulation<Vnkv_chmu_exact>;

constexpr unsigned kUnits = 24;
constexpr unsigned kLatency = 3;

class ExactCountersTest : public testing::Test {
 protected:
  ExactCountersTest() {
    counters_->valid_i = 0;
    counters_->clear_i = 0;
    counters_->epoch_i = 0;
    counters_->restart_i = 0;
    counters_->threshold_i = 3;
    counters_.reset();
  }

  /// One cycle; checks what comes out, and counts what goes in.
  void cycle(std::optional<unsigned> unit, bool epoch = false) {
    counters_->valid_i = unit.has_value();
    counters_->unit_i = static_cast<std::uint8_t>(unit.value_or(0));
    counters_->epoch_i = epoch;
    counters_.settle();
    expected_.push_back(std::nullopt);
    if (unit && !counters_->busy_o) {
      unsigned& count = counts_[*unit];
      const bool sticks = count == 0xffff;
      if (!sticks) ++count;
      if (!sticks && count == counters_->threshold_i) {
        expected_.back() = unit;
        if (counters_->restart_i) count = 0;
      }
    }
    if (epoch) counts_.clear();
    counters_.tick();
    if (expected_.size() < kLatency) return;
    const std::optional<unsigned> hot = expected_.front();
    expected_.pop_front();
    ASSERT_EQ(counters_->hot_valid_o, hot.has_value());
    if (!hot) return;
    ASSERT_EQ(counters_->hot_unit_o, *hot);
    ASSERT_EQ(counters_->hot_count_o, counters_->threshold_i);
    ++hot_;
  }

  void wait() {
    while (counters_->busy_o) cycle(std::nullopt);
  }

  Counters counters_;
  std::map<unsigned, unsigned> counts_;
  std::deque<std::optional<unsigned>> expected_;
  unsigned hot_ = 0;
};

TEST_F(ExactCountersTest, SweepsOnceAfterResetAndCountsNothingMeanwhile) {
  unsigned cycles = 0;
  while (counters_->busy_o) {
    cycle(1);
    ++cycles;
  }
  EXPECT_EQ(cycles, kUnits);
  for (unsigned i = 0; i < 2; ++i) cycle(1);
  for (unsigned i = 0; i < 8; ++i) cycle(std::nullopt);
  EXPECT_EQ(hot_, 0U);
}

TEST_F(ExactCountersTest, CountsTwoAccessesAtAnyDistance) {
  wait();
  counters_->threshold_i = 2;
  cycle(std::nullopt);
  for (unsigned distance = 1; distance < 10; ++distance) {
    cycle(7);
    for (unsigned i = 1; i < distance; ++i) cycle(std::nullopt);
    cycle(7);
    for (unsigned i = 0; i < 8; ++i) cycle(std::nullopt);
    EXPECT_EQ(hot_, distance);
    cycle(std::nullopt, true);
    wait();
  }
}

TEST_F(ExactCountersTest, MatchesPlainCountingInEveryMode) {
  for (unsigned number = 0; number < 12; ++number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    wait();
    for (unsigned i = 0; i < 8; ++i) cycle(std::nullopt);
    counters_->clear_i = 1;
    cycle(std::nullopt);
    counters_->clear_i = 0;
    counts_.clear();
    wait();
    counters_->restart_i = number % 2;
    counters_->threshold_i = static_cast<std::uint16_t>(1 + number * number);
    cycle(std::nullopt);
    const unsigned span = number % 3 == 0 ? 2 : number % 3 == 1 ? 4 : kUnits;
    const unsigned pace = kPaces[number % 3];
    for (unsigned i = 0; i < 20'000; ++i) {
      std::optional<unsigned> unit;
      if (is_willing(random, pace)) unit = static_cast<unsigned>(random() % span);
      cycle(unit, number % 2 == 0 && random() % (number == 0 ? 3 : 300) == 0);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(hot_, 1000U);
}

TEST_F(ExactCountersTest, LargestThresholdIsReachedOnce) {
  wait();
  counters_->threshold_i = 0xffff;
  cycle(std::nullopt);
  // Long enough to reach it twice, did the counter begin again.
  for (unsigned i = 0; i < 0x20100; ++i) cycle(3);
  EXPECT_EQ(hot_, 1U);
}

}  // namespace
}  // namespace nearkv::rtl_test
