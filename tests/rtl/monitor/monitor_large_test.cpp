// nkv_chmu with the sketch, for 32 GiB in units of 4 KiB: what differs from exact counters, and a
// range bitmap of more than one word.
#include <gtest/gtest.h>

#include "Vnkv_chmu.h"
#include "driver.hpp"

namespace nearkv::rtl_test {
namespace {

using namespace chmu;
using Unit = Monitor<Vnkv_chmu>;

constexpr std::uint64_t kUnit = 4096;
constexpr unsigned kEntries = 1024;
constexpr std::uint64_t kBlocks = 128;

TEST(MonitorLargeTest, CapabilitiesTellWhatTheSketchCan) {
  Unit unit;
  EXPECT_EQ(unit.read(kCap0) >> 48U, kEntries);
  EXPECT_EQ(unit.read(kCap1) & 0xffffffffU, 0x30U);  // 4 and 8 KiB
  EXPECT_EQ(unit.read(kCap1) >> 48U, 0x5U);          // Epochs and randomized, not always-on
  EXPECT_EQ(unit.read(kCap3), kRanges - kInstance + kBlocks / 8);
  EXPECT_EQ(unit.read(kCommonCap1), unit.read(kCap3) + 8 * kEntries);
  EXPECT_EQ(unit.status() >> 32U & 0xffU, kCounterWidth);
}

TEST(MonitorLargeTest, RefusesAlwaysOnAndThresholdsBeyondItsCounters) {
  Unit unit;
  unit.start({.unit_log2 = 12, .mode = kAlwaysOn});
  EXPECT_EQ(unit.status() & kEnabled, 0U);
  unit.start({.threshold = 0x4000, .unit_log2 = 12});
  EXPECT_EQ(unit.status() & kEnabled, 0U);
  unit.start({.threshold = 0x3fff, .unit_log2 = 12});
  EXPECT_EQ(unit.status() & kEnabled, kEnabled);
}

TEST(MonitorLargeTest, ListsHotUnitsOfRangesInEachWordOfTheBitmap) {
  Unit unit;
  unit.write(kRanges + 8, std::uint64_t{1} << 63U);
  EXPECT_EQ(unit.read(kRanges + 8), std::uint64_t{1} << 63U);
  unit.start({.unit_log2 = 12}, 2);
  for (const std::uint64_t block : {0U, 1U, 63U, 64U, 126U, 127U}) {
    unit.accesses(block * kBlock + 5 * kUnit, 4);
  }
  unit.drain();
  const std::uint64_t units = kBlock / kUnit;
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{units + 5, 4}, {127 * units + 5, 4}}));
}

TEST(MonitorLargeTest, ListsAUnitOnceAnEpoch) {
  Unit unit;
  unit.start({.unit_log2 = 13, .epoch_scale = 2, .epoch_value = 10});  // 20,000 cycles
  unit.accesses(7 * kUnit, 100);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{3, 4}}));
  unit.ticks(20'000);
  unit.accesses(7 * kUnit, 3);
  unit.drain();
  EXPECT_TRUE(unit.take().empty());
  unit.access(7 * kUnit);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{3, 4}}));
}

}  // namespace
}  // namespace nearkv::rtl_test
