// What nkv_chmu with exact counters counts, in which epochs, and what its hot list says of it.
#include <gtest/gtest.h>

#include <vector>

#include "small_monitor.hpp"

namespace nearkv::rtl_test {
namespace {

TEST(MonitorFilterTest, CountsTheKindsOfRequestsThatAreTracked) {
  for (const Track track :
       {kNonTeeRead, kNonTeeWrite, kNonTeeReadWrite, kRead, kWrite, kReadWrite}) {
    Unit unit;
    unit.start({.track = track});
    unit.accesses(1 * kUnit, 4, false);
    unit.accesses(2 * kUnit, 4, true);
    unit.drain();
    std::vector<Entry> expected;
    if (track % 3 != 2) expected.push_back({1, 4});
    if (track % 3 != 1) expected.push_back({2, 4});
    EXPECT_EQ(unit.take(), expected) << track;
  }
}

TEST(MonitorFilterTest, CountsBlocksWhoseRangeBitIsSet) {
  for (std::uint64_t ranges = 0; ranges < 8; ++ranges) {
    Unit unit;
    unit.start({}, ranges | ~std::uint64_t{7});
    std::vector<Entry> expected;
    for (std::uint64_t block = 0; block < 3; ++block) {
      unit.accesses(block * kBlock, 4);
      unit.accesses((block + 1) * kBlock - 64, 4);
      if ((ranges >> block & 1U) == 0) continue;
      expected.push_back({block * kBlock / kUnit, 4});
      expected.push_back({((block + 1) * kBlock - 1) / kUnit, 4});
    }
    unit.drain();
    EXPECT_EQ(unit.take(), expected) << ranges;
  }
}

TEST(MonitorFilterTest, CountsNothingBeyondTheMemory) {
  Unit unit;
  unit.start({});
  unit.accesses(3 * kBlock, 4);
  unit.accesses(4 * kBlock, 4);
  unit.accesses(std::uint64_t{1} << 51U, 4);
  unit.drain();
  EXPECT_TRUE(unit.take().empty());
}

TEST(MonitorFilterTest, CountsByUnitsOfTheSizeThatIsSet) {
  for (const unsigned log2 : {16U, 17U, 18U}) {
    Unit unit;
    unit.start({.threshold = 8, .unit_log2 = log2});
    // 8 accesses in each 64 KiB of 768 KiB: more as units grow, reported once each.
    for (std::uint64_t at = 0; at < 12 * kUnit; at += kUnit / 8) unit.access(at);
    unit.drain();
    const std::vector<Entry> entries = unit.take();
    ASSERT_EQ(entries.size(), 12U >> (log2 - 16));
    for (std::uint64_t i = 0; i < entries.size(); ++i) EXPECT_EQ(entries[i], (Entry{i, 8}));
  }
}

TEST(MonitorFilterTest, DownSamplingCountsTheLastOfEachPowerOfTwo) {
  for (const unsigned factor : {1U, 3U, 15U}) {
    Unit unit;
    unit.start({.threshold = 1, .down_sampling = factor, .mode = kAlwaysOn});
    unit.accesses(kUnit, (1U << factor) - 1);
    unit.drain();
    EXPECT_TRUE(unit.take().empty()) << factor;
    unit.access(2 * kUnit);
    unit.accesses(3 * kUnit, (1U << factor) - 1);
    unit.drain();
    EXPECT_EQ(unit.take(), (std::vector<Entry>{{2, 1}})) << factor;
  }
}

TEST(MonitorFilterTest, RandomizedDownSamplingCountsThatPartOfAPeriodicStream) {
  Unit unit;
  // Without randomizing, one of the eight units would get all of the counts.
  constexpr unsigned kAccesses = 1U << 16U;
  unit.start({.threshold = 1, .down_sampling = 3, .randomize = true, .mode = kAlwaysOn});
  std::vector<unsigned> counts(8);
  for (unsigned i = 0; i < kAccesses; ++i) {
    unit.access(i % 8 * kUnit);
    if (i % 32 == 31) {
      unit.drain();
      for (const Entry& entry : unit.take()) ++counts.at(entry.unit);
    }
  }
  EXPECT_EQ(unit.status() & kOverflow, 0U);
  // 1,024 +- 30 (one deviation) are expected of each.
  for (const unsigned count : counts) EXPECT_NEAR(count, kAccesses / 64.0, 150);
}

TEST(MonitorEpochTest, AUnitIsListedWhenItReachesTheThresholdOnceAnEpoch) {
  Unit unit;
  unit.start({});
  unit.accesses(9 * kUnit, 3);
  unit.drain();
  EXPECT_TRUE(unit.take().empty());
  unit.accesses(9 * kUnit, 100);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{9, 4}}));
}

TEST(MonitorEpochTest, AThresholdOfNothingIsThatOfOneAccess) {
  Unit unit;
  unit.start({.threshold = 0});
  unit.accesses(9 * kUnit, 10);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{9, 1}}));
}

TEST(MonitorEpochTest, CountersSaturateAndListTheirLargestThresholdOnce) {
  Unit unit;
  unit.start({.threshold = 0xffff});
  unit.accesses(9 * kUnit, 0xfffe);
  unit.drain();
  EXPECT_TRUE(unit.take().empty());
  unit.accesses(9 * kUnit, 100);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{9, 0xffff}}));
}

TEST(MonitorEpochTest, AlwaysOnListsAUnitWithEveryThresholdAccesses) {
  Unit unit;
  unit.start({.threshold = 5, .mode = kAlwaysOn});
  unit.accesses(9 * kUnit, 24);
  unit.ticks(20 * kEpochCycles);  // No epochs in this mode
  unit.access(9 * kUnit);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>(5, Entry{9, 5})));
}

// Cycles from one report of a unit that is accessed in every cycle to the next.
unsigned epoch_length(Unit& unit, unsigned limit) {
  unsigned last = 0;
  unsigned found = 0;
  unsigned tail = 0;
  for (unsigned i = 0; i < limit; ++i) {
    unit.put_access(0);
    const unsigned now = unit.tail();
    if (now == tail) continue;
    tail = now;
    // The first epoch is cut by the time that the driver took to look.
    if (++found == 3) return i - last;
    last = i;
  }
  return 0;
}

TEST(MonitorEpochTest, EpochsLastAsConfigured) {
  const struct {
    unsigned scale, value, cycles;
  } cases[] = {{1, 1, 200}, {1, 7, 1400}, {2, 1, 2000}, {2, 3, 6000}, {3, 2, 40'000}};
  for (const auto& [scale, value, cycles] : cases) {
    Unit unit;
    unit.start({.threshold = 1, .epoch_scale = scale, .epoch_value = value});
    EXPECT_EQ(epoch_length(unit, 4 * cycles), cycles) << scale << "/" << value;
  }
}

TEST(MonitorEpochTest, CountsOfEpochsDoNotAddUpEvenWhenTagsRepeat) {
  Unit unit;
  unit.start({.threshold = 3, .epoch_scale = 2, .epoch_value = 1});
  // Tags repeat after 16 epochs, and so do units here, each with two accesses.
  for (std::uint64_t i = 0; i < 100; ++i) {
    unit.accesses(i % 16 * kUnit, 2);
    unit.ticks(10 * kEpochCycles - 2);
  }
  EXPECT_TRUE(unit.take().empty());
}

TEST(MonitorEpochTest, ASweepEndsThoughTagsRepeatMeanwhile) {
  Unit unit;
  unit.start({.threshold = 1, .epoch_scale = 1, .epoch_value = 1});
  // A sweep takes 12,288 cycles, or 62 epochs in which nothing is counted; 16 that count follow.
  std::size_t taken = 0;
  for (unsigned i = 0; i < 400; ++i) {
    unit.access(kUnit);
    unit.ticks(kEpochCycles - 20);
    taken += unit.take().size();
    unit.ticks(14);
  }
  EXPECT_GE(taken, 70U);
  EXPECT_LE(taken, 96U);
}

TEST(MonitorListTest, HoldsOneEntryLessThanItsSizeAndLosesFurtherOnes) {
  Unit unit;
  unit.start({.threshold = 1, .notification = 0xffff});
  for (std::uint64_t i = 0; i < kEntries - 1; ++i) unit.access(i * kUnit);
  unit.drain();
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), 0U);
  unit.access(100 * kUnit);
  unit.drain();
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), kOverflow);
  const std::vector<Entry> entries = unit.take();
  ASSERT_EQ(entries.size(), kEntries - 1);
  for (std::uint64_t i = 0; i < entries.size(); ++i) EXPECT_EQ(entries[i], (Entry{i, 1}));
}

TEST(MonitorListTest, GoesRoundForAsLongAsTheHostTakes) {
  Unit unit;
  unit.start({.threshold = 1});
  std::uint64_t next = 0;
  for (unsigned round = 0; round < 20; ++round) {
    const std::uint64_t first = next;
    for (unsigned i = 0; i < 11; ++i) unit.access(next++ * kUnit);
    unit.drain();
    const std::vector<Entry> entries = unit.take();
    ASSERT_EQ(entries.size(), 11U);
    for (std::uint64_t i = 0; i < 11; ++i) EXPECT_EQ(entries[i], (Entry{first + i, 1}));
  }
}

TEST(MonitorListTest, TheHostCannotWriteEntries) {
  Unit unit;
  unit.start({.threshold = 1});
  unit.access(3 * kUnit);
  unit.drain();
  unit.write(kList, 0);  // Linux writes the word after a full range bitmap.
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{3, 1}}));
}

TEST(MonitorListTest, LevelIsReachedWithMoreEntriesThanTheNotificationThreshold) {
  Unit unit;
  unit.start({.threshold = 1, .notification = 4});
  for (std::uint64_t i = 0; i < 4; ++i) unit.access(i * kUnit);
  unit.drain();
  EXPECT_EQ(unit.status() & kLevel, 0U);
  unit.access(4 * kUnit);
  unit.drain();
  EXPECT_EQ(unit.status() & kLevel, kLevel);
}

TEST(MonitorListTest, StatusBitsAreClearedByWritingOneToThem) {
  Unit unit;
  unit.start({.threshold = 1, .notification = 0});
  for (std::uint64_t i = 0; i < kEntries; ++i) unit.access(i * kUnit);
  unit.drain();
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), kOverflow | kLevel);
  EXPECT_EQ(unit.take().size(), kEntries - 1);
  // Taking entries clears nothing.
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), kOverflow | kLevel);
  unit.write(kStatus, kOverflow);
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), kLevel);
  unit.write(kStatus, kLevel, 0x1f);  // Its byte has no strobe.
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), kLevel);
  unit.write(kStatus, kLevel);
  EXPECT_EQ(unit.status() & (kOverflow | kLevel), 0U);
}

TEST(MonitorListTest, LevelComesBackWhileTheListIsTooFull) {
  Unit unit;
  unit.start({.threshold = 1, .notification = 1, .interrupts = kInterruptOnLevel});
  for (std::uint64_t i = 0; i < 3; ++i) unit.access(i * kUnit);
  unit.drain();
  EXPECT_EQ(unit.interrupts(), 1U);
  unit.write(kStatus, kLevel);
  unit.drain();
  EXPECT_EQ(unit.status() & kLevel, kLevel);
  EXPECT_EQ(unit.interrupts(), 1U);
}

TEST(MonitorListTest, ResetClearsListAndStatus) {
  Unit unit;
  unit.start({.threshold = 1, .notification = 0});
  for (std::uint64_t i = 0; i < kEntries; ++i) unit.access(i * kUnit);
  unit.drain();
  unit.write(kConf0, kResetCounters);
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.status(), std::uint64_t{kCounterWidth} << 32U);
  EXPECT_EQ(unit.read(kHeadTail), 0U);
}

}  // namespace
}  // namespace nearkv::rtl_test
