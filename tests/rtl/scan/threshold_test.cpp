// nkv_threshold against a count of its own: many commands, so that stamps come round; tokens that
// crowd into one bin; every size of n.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "Vnkv_threshold.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Threshold = Simulation<Vnkv_threshold>;
constexpr unsigned kRows = 8;
using Bins = std::vector<std::array<unsigned, NKV_HISTOGRAM_BINS>>;

void start(Threshold& threshold) {
  ASSERT_TRUE(threshold.tick_until([&] { return threshold->ready_o; }, 5000));
  threshold->start_i = 1;
  threshold.tick();
  threshold->start_i = 0;
  ASSERT_TRUE(threshold.tick_until([&] { return !threshold->clearing_o; }, 100));
}

// A beat, and the cycle of rest that follows each.
void add_quad(Threshold& threshold, const std::array<std::array<int, 4>, kRows>& midpoints,
              const std::array<bool, 4>& visible, Bins* bins) {
  threshold->valid_i = 1;
  for (unsigned t = 0; t < 4; ++t) {
    threshold->visible_i[t] = visible[t];
    for (unsigned r = 0; r < kRows; ++r) {
      const int midpoint = midpoints[r][t];
      threshold->midpoint_i[r][t] = static_cast<std::uint16_t>(midpoint);
      if (visible[t]) ++(*bins)[r][static_cast<unsigned>(midpoint + 32768) >> 4];
    }
  }
  threshold.tick();
  threshold->valid_i = 0;
  threshold.tick();
}

unsigned expected(const Bins& bins, unsigned row, unsigned count) {
  unsigned reached = 0;
  for (unsigned bin = NKV_HISTOGRAM_BINS - 1; bin > 0; --bin) {
    reached += bins[row][bin];
    if (reached >= count) return bin;
  }
  return 0;
}

void expect_threshold(Threshold& threshold, const Bins& bins, unsigned count) {
  threshold->walk_i = 1;
  threshold->count_i = static_cast<std::uint16_t>(count);
  const std::uint64_t begin = threshold.cycles();
  threshold.tick();
  threshold->walk_i = 0;
  ASSERT_TRUE(threshold.tick_until([&] { return !threshold->walking_o; }, 200));
  EXPECT_LE(threshold.cycles() - begin, 142U);
  for (unsigned row = 0; row < kRows; ++row) {
    ASSERT_EQ(threshold->threshold_o[row], expected(bins, row, count))
        << "row " << row << " n " << count;
  }
}

// Midpoints of a row: anywhere, in few bins, or all in one.
int random_midpoint(unsigned row, unsigned command, test::Random& random) {
  switch ((row + command) % 4) {
    case 0:
      return static_cast<std::int16_t>(random());
    case 1:
      return static_cast<int>(random() % 64) + static_cast<int>(command * 40) - 20000;
    case 2:
      return random() % 5 == 0 ? -32767 : 32767;
    default:
      return -32767;
  }
}

TEST(ThresholdTest, CountsEachCommandAlone) {
  Threshold threshold;
  threshold.reset();
  for (unsigned command = 0; command < 50; ++command) {
    SCOPED_TRACE(test::case_name(command));
    test::Random random = test::case_random(command);
    start(threshold);
    if (HasFatalFailure()) return;
    Bins bins(kRows);
    // Most commands are short: refreshing has to keep up with those, too.
    const unsigned quads = command % 10 == 0 ? kListTokens / 4 : test::pick(random, 0, 300);
    for (unsigned quad = 0; quad < quads; ++quad) {
      std::array<std::array<int, 4>, kRows> midpoints;
      for (unsigned row = 0; row < kRows; ++row) {
        for (int& midpoint : midpoints[row]) midpoint = random_midpoint(row, command, random);
      }
      std::array<bool, 4> visible;
      for (bool& token : visible) token = random() % 8 != 0;
      add_quad(threshold, midpoints, visible, &bins);
      if (command % 3 == 0 && random() % 4 == 0) threshold.ticks(test::pick(random, 1, 3));
    }
    threshold.ticks(8);
    for (const unsigned count : {1U, 2U, test::pick(random, 1, 8192), 8192U}) {
      expect_threshold(threshold, bins, count);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ThresholdTest, CountsAListThatLiesInOneBin) {
  Threshold threshold;
  threshold.reset();
  for (const unsigned tokens : {kListTokens / 4, kListTokens / 2, kListTokens}) {
    SCOPED_TRACE(tokens);
    start(threshold);
    if (HasFatalFailure()) return;
    std::array<std::array<int, 4>, kRows> midpoints;
    for (auto& row : midpoints) row.fill(20000);
    Bins bins(kRows);
    for (unsigned quad = 0; quad < tokens / 4; ++quad) {
      add_quad(threshold, midpoints, {true, true, true, true}, &bins);
    }
    threshold.ticks(8);
    for (const unsigned count : {1U, 8192U}) {
      expect_threshold(threshold, bins, count);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ThresholdTest, StartsAfreshAfterReset) {
  Threshold threshold;
  threshold.reset();
  for (unsigned i = 0; i < 3; ++i) {
    start(threshold);
    if (HasFatalFailure()) return;
    Bins bins(kRows);
    add_quad(threshold, {}, {true, true, true, true}, &bins);
    threshold.ticks(8);
    expect_threshold(threshold, bins, 4);
    expect_threshold(threshold, bins, 5);
    threshold.reset();
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
