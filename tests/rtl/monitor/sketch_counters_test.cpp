// nkv_chmu_sketch against the same sketch in C++, and the sketch against exact counts: how much
// more than the truth it says on a Zipf stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "Vnkv_chmu_sketch.h"
#include "monitor/sketch.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLatency = 6;

class SketchCountersTest : public testing::Test {
 protected:
  SketchCountersTest() {
    counters_->valid_i = 0;
    counters_->clear_i = 0;
    counters_->epoch_i = 0;
    counters_->threshold_i = 4;
    counters_.reset();
    wait();
  }

  void cycle(std::optional<unsigned> unit, bool epoch = false) {
    counters_->valid_i = unit.has_value();
    counters_->unit_i = unit.value_or(0);
    counters_->epoch_i = epoch;
    expected_.push_back(std::nullopt);
    if (unit && !counters_->busy_o) {
      expected_.back() = sketch_.access(*unit, counters_->threshold_i);
    }
    if (epoch) sketch_.clear();
    counters_.tick();
    if (expected_.size() < kLatency) return;
    const std::optional<Hot> hot = expected_.front();
    expected_.pop_front();
    ASSERT_EQ(counters_->hot_valid_o, hot.has_value());
    if (!hot) return;
    ASSERT_EQ(counters_->hot_unit_o, hot->unit);
    ASSERT_EQ(counters_->hot_count_o, hot->count);
    hot_.push_back(*hot);
  }

  void drain() {
    for (unsigned i = 0; i < 16; ++i) cycle(std::nullopt);
  }

  void wait() {
    while (counters_->busy_o) cycle(std::nullopt);
  }

  void set_threshold(unsigned threshold) {
    drain();
    counters_->threshold_i = static_cast<std::uint16_t>(threshold);
    cycle(std::nullopt);
  }

  Simulation<Vnkv_chmu_sketch> counters_;
  Sketch sketch_;
  std::deque<std::optional<Hot>> expected_;
  std::vector<Hot> hot_;
};

TEST_F(SketchCountersTest, CountsTwoAccessesAtAnyDistance) {
  set_threshold(2);
  for (unsigned distance = 1; distance < 10; ++distance) {
    cycle(77 + distance);
    for (unsigned i = 1; i < distance; ++i) cycle(std::nullopt);
    cycle(77 + distance);
    drain();
    ASSERT_EQ(hot_.size(), distance);
    EXPECT_EQ(hot_.back(), (Hot{77 + distance, 2}));
  }
}

TEST_F(SketchCountersTest, MatchesTheSketchAtEveryPaceThroughEpochs) {
  for (unsigned number = 0; number < 6; ++number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    set_threshold(1 + number * 3);
    const unsigned span = 1U << (1 + 3 * number);
    for (unsigned i = 0; i < 40'000; ++i) {
      std::optional<unsigned> unit;
      // Now and then the same unit once more, so that accesses meet under way.
      if (is_willing(random, kPaces[number % 3])) {
        unit = static_cast<unsigned>(random() % span * 2654435761U % (1U << kUnitBits));
      }
      cycle(unit, random() % 4000 == 0);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(hot_.size(), 100U);
}

TEST_F(SketchCountersTest, SticksAtItsLargestCount) {
  set_threshold(kLargest);
  for (unsigned i = 0; i < 20'000; ++i) cycle(5);
  drain();
  EXPECT_EQ(hot_, (std::vector<Hot>{{5, kLargest}}));
  EXPECT_EQ(sketch_.estimate(5), kLargest);
}

// A stream of accesses to 2**20 units, unit of rank r with weight r**-exponent, and by how much the
// sketch may say more than the truth about it. rtl/monitor/README.md has what was
// measured.
struct Stream {
  double exponent;
  unsigned accesses;
  double mean_excess;      // Of all units that were accessed
  double hot_mean_excess;  // Of those that reached the threshold
  unsigned falsely_hot;
};

class SketchExcessTest : public SketchCountersTest, public testing::WithParamInterface<Stream> {};

TEST_P(SketchExcessTest, NeverSaysLessAndLittleMoreThanTheTruth) {
  constexpr unsigned kSpan = 1U << 20U;
  constexpr unsigned kThreshold = 64;
  const Stream& stream = GetParam();
  std::vector<double> sums(kSpan);
  double sum = 0;
  for (unsigned i = 0; i < kSpan; ++i) sums[i] = sum += std::pow(i + 1, -stream.exponent);

  set_threshold(kThreshold);
  test::Random random = test::case_random(100);
  std::uniform_real_distribution<double> uniform(0, sum);
  std::unordered_map<unsigned, unsigned> exact;
  for (unsigned i = 0; i < stream.accesses; ++i) {
    const auto rank = static_cast<unsigned>(
        std::lower_bound(sums.begin(), sums.end(), uniform(random)) - sums.begin());
    // Ranks are scattered over the units.
    const unsigned unit = rank * 2654435761U % (1U << kUnitBits);
    ++exact[unit];
    cycle(unit);
    if (HasFatalFailure()) return;
  }
  drain();

  std::uint64_t excess = 0;
  std::uint64_t hot_excess = 0;
  unsigned largest = 0;
  unsigned hot = 0;
  for (const auto& [unit, count] : exact) {
    const unsigned truth = std::min(count, kLargest);
    const unsigned estimate = sketch_.estimate(unit);
    ASSERT_GE(estimate, truth);
    excess += estimate - truth;
    largest = std::max(largest, estimate - truth);
    if (count < kThreshold) continue;
    ++hot;
    hot_excess += estimate - truth;
  }
  unsigned falsely_hot = 0;
  std::unordered_set<unsigned> listed;
  for (const Hot& entry : hot_) {
    listed.insert(entry.unit);
    falsely_hot += exact.at(entry.unit) < kThreshold ? 1U : 0U;
  }
  unsigned missed = 0;
  for (const auto& [unit, count] : exact) {
    missed += count >= kThreshold && !listed.contains(unit) ? 1U : 0U;
  }
  const double mean = static_cast<double>(excess) / static_cast<double>(exact.size());
  const double hot_mean = static_cast<double>(hot_excess) / hot;
  RecordProperty("units", std::to_string(exact.size()));
  RecordProperty("mean_excess", std::to_string(mean));
  RecordProperty("largest_excess", std::to_string(largest));
  RecordProperty("hot", std::to_string(hot));
  RecordProperty("hot_mean_excess", std::to_string(hot_mean));
  RecordProperty("falsely_hot", std::to_string(falsely_hot));
  EXPECT_LE(mean, stream.mean_excess);
  EXPECT_LE(hot_mean, stream.hot_mean_excess);
  EXPECT_LE(falsely_hot, stream.falsely_hot);
  EXPECT_EQ(hot_.size(), listed.size());  // Each once
  EXPECT_EQ(missed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Zipf, SketchExcessTest,
                         testing::Values(Stream{1.0, 1'000'000, 3.5, 0.01, 0},
                                         Stream{0.8, 1'000'000, 8.0, 0.02, 0},
                                         Stream{0.8, 2'000'000, 17.0, 0.1, 8}));

}  // namespace
}  // namespace nearkv::rtl_test
