// nkv_chmu with exact counters, as its registers promise it: capabilities, configuration, control,
// interrupts, and what a driver does in its life.
#include <gtest/gtest.h>

#include "small_monitor.hpp"

namespace nearkv::rtl_test {
namespace {

TEST(MonitorRegistersTest, CommonPartTellsOneInstance) {
  Unit unit;
  EXPECT_EQ(unit.read(kCommonCap0), 0x101U);  // Version 1, one instance
  EXPECT_EQ(unit.read(kCommonCap1), kList - kInstance + 8 * kEntries);
}

TEST(MonitorRegistersTest, CapabilitiesTellWhatTheUnitCan) {
  Unit unit;
  const std::uint64_t cap0 = unit.read(kCap0);
  EXPECT_EQ(cap0 & 0xfU, 5U);            // MSI
  EXPECT_EQ(cap0 >> 4U & 3U, 3U);        // Both interrupts
  EXPECT_EQ(cap0 >> 6U & 3U, 0U);        // Global epochs
  EXPECT_EQ(cap0 >> 8U & 0x3fU, 0x3fU);  // All kinds of requests
  EXPECT_EQ(cap0 >> 14U & 3U, 0U);
  EXPECT_EQ(cap0 >> 16U & 0xffffU, 0xfff5U);  // Up to 4,095 s
  EXPECT_EQ(cap0 >> 32U & 0xffffU, 0x0011U);  // From 100 us
  EXPECT_EQ(cap0 >> 48U, kEntries);

  const std::uint64_t cap1 = unit.read(kCap1);
  EXPECT_EQ(cap1 & 0xffffffffU, 0x700U);  // 64, 128, 256 KiB: 256 B << 8, 9, 10
  EXPECT_EQ(cap1 >> 32U & 0xffffU, 0xffffU);
  // Epochs, always-on and randomized; neither overlapping ranges nor insert after clear.
  EXPECT_EQ(cap1 >> 48U, 0x7U);

  EXPECT_EQ(unit.read(kCap2), static_cast<std::uint64_t>(kRanges - kInstance));
  EXPECT_EQ(unit.read(kCap3), static_cast<std::uint64_t>(kList - kInstance));
}

TEST(MonitorRegistersTest, ConfigurationIsZeroAfterReset) {
  Unit unit;
  for (const std::uint16_t offset : {kConf0, kConf1, kConf2, kHeadTail, kRanges}) {
    EXPECT_EQ(unit.read(offset), 0U) << offset;
  }
  EXPECT_EQ(unit.status(), std::uint64_t{kCounterWidth} << 32U);
}

TEST(MonitorRegistersTest, ConfigurationKeepsItsFieldsAndNoOthers) {
  Unit unit;
  const std::uint64_t all = ~std::uint64_t{0};
  unit.write(kConf0, all & ~(kEnable | kResetCounters));
  EXPECT_EQ(unit.read(kConf0), 0xffffffff000007ffU);
  unit.write(kConf1, all);
  EXPECT_EQ(unit.read(kConf1), all);
  unit.write(kConf2, all);
  EXPECT_EQ(unit.read(kConf2), 0xffffU);
  unit.write(kRanges, 0x123456789abcdef0U);
  EXPECT_EQ(unit.read(kRanges), 0x123456789abcdef0U);
}

TEST(MonitorRegistersTest, BytesWithoutStrobeStay) {
  Unit unit;
  unit.write(kConf1, 0x1111111111111111U);
  unit.write(kConf1, 0x2222222222222222U, 0x0f);
  EXPECT_EQ(unit.read(kConf1), 0x1111111122222222U);
  unit.write(kRanges, 0x3333333333333333U, 0x81);
  EXPECT_EQ(unit.read(kRanges), 0x3300000000000033U);
}

TEST(MonitorRegistersTest, WritesToReadOnlyAndUnknownOffsetsChangeNothing) {
  Unit unit;
  for (const std::uint16_t offset :
       {kCommonCap0, kCommonCap1, kCap0, kCap1, kCap2, kCap3, kStatus}) {
    const std::uint64_t before = unit.read(offset);
    unit.write(offset, ~before);
    EXPECT_EQ(unit.read(offset), before) << offset;
  }
  constexpr std::uint16_t kUnknown[] = {0x30, 0x48, 0x68, 0x108, 0x1000, 0xfff8};
  for (const std::uint16_t offset : kUnknown) {
    unit.write(offset, ~std::uint64_t{0});
    EXPECT_EQ(unit.read(offset), 0U) << offset;
  }
}

TEST(MonitorRegistersTest, HeadIsTheHostsAndTailIsNot) {
  Unit unit;
  unit.write(kHeadTail, 0x00090007);
  EXPECT_EQ(unit.head(), 7U);
  EXPECT_EQ(unit.tail(), 0U);
  unit.set_head(kEntries);  // Beyond the ring
  EXPECT_EQ(unit.head(), 7U);
  unit.write(kHeadTail, 0x00090003, 0x0c);  // TAIL alone
  EXPECT_EQ(unit.head(), 7U);
  EXPECT_EQ(unit.tail(), 0U);
}

TEST(MonitorRegistersTest, ConfigurationIsLockedWhileInUse) {
  Unit unit;
  const Configuration configuration;
  unit.start(configuration, 7);
  unit.write(kConf1, 0);
  unit.write(kRanges, 0);
  EXPECT_EQ(unit.read(kConf1), configuration.conf1());
  EXPECT_EQ(unit.read(kRanges), 7U);
  // Of CONF0, interrupts can be chosen, the threshold cannot.
  unit.write(kConf0, kEnable | kInterruptOnLevel | std::uint64_t{99} << 32U);
  EXPECT_EQ(unit.read(kConf0), (configuration.conf0() | kEnable | kInterruptOnLevel));
  unit.write(kConf2, 3);
  EXPECT_EQ(unit.read(kConf2), 3U);
}

TEST(MonitorControlTest, OperationsAreInProgressFromTheCycleAfterTheWrite) {
  Unit unit;
  ASSERT_TRUE(unit.settle());
  unit.write(kConf1, Configuration{}.conf1());
  unit.write(kConf0, kResetCounters);
  EXPECT_EQ(unit.operation(), kResetting);
  EXPECT_EQ(unit.read(kConf0) & kResetCounters, 0U);
  ASSERT_TRUE(unit.settle());
  unit.write(kConf0, Configuration{}.conf0() | kEnable);
  EXPECT_EQ(unit.operation(), kEnabling);
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.status() & kEnabled, 1U);
  unit.write(kConf0, Configuration{}.conf0());
  EXPECT_EQ(unit.operation(), kDisabling);
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.status() & kEnabled, 0U);
}

TEST(MonitorControlTest, EnableAfterPowerUpWaitsForTheFirstSweep) {
  Unit unit;
  unit.write(kConf1, Configuration{}.conf1());
  unit.write(kConf0, Configuration{}.conf0() | kEnable);
  unit.ticks(1000);
  EXPECT_EQ(unit.operation(), kEnabling);
  EXPECT_EQ(unit.status() & kEnabled, 0U);
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.status() & kEnabled, 1U);
}

TEST(MonitorControlTest, ResetWhileEnabledForgetsAllAndGoesOnIfAsked) {
  Unit unit;
  unit.start({});
  unit.accesses(0, 4);
  unit.accesses(kUnit, 3);
  unit.drain();
  EXPECT_EQ(unit.tail(), 1U);
  unit.write(kConf0, Configuration{}.conf0() | kEnable | kResetCounters);
  EXPECT_EQ(unit.operation(), kResetting);
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.status() & kEnabled, 1U);
  EXPECT_EQ(unit.tail(), 0U);
  unit.accesses(kUnit, 3);
  unit.drain();
  EXPECT_EQ(unit.tail(), 0U);
  unit.access(kUnit);
  unit.drain();
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{1, 4}}));
}

TEST(MonitorControlTest, DisableKeepsEntriesThatWereUnderWay) {
  Unit unit;
  unit.start({});
  unit.accesses(5 * kUnit, 4);
  unit.write(kConf0, Configuration{}.conf0());
  unit.accesses(6 * kUnit, 4);
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.take(), (std::vector<Entry>{{5, 4}}));
}

TEST(MonitorControlTest, EachEnableCountsFromZero) {
  Unit unit;
  unit.start({});
  unit.accesses(0, 3);
  ASSERT_TRUE(unit.stop());
  unit.write(kConf0, Configuration{}.conf0() | kEnable);
  ASSERT_TRUE(unit.settle());
  unit.accesses(0, 3);
  unit.drain();
  EXPECT_EQ(unit.tail(), 0U);
}

TEST(MonitorControlTest, RefusesWhatItHasNoCapabilityFor) {
  const std::vector<Configuration> refused = {
      {.track = 0},      {.track = 7},       {.threshold = 0x10000}, {.unit_log2 = 15},
      {.unit_log2 = 19}, {.unit_log2 = 7},   {.unit_log2 = 48},      {.down_sampling = 16},
      {.mode = 2},       {.epoch_scale = 0}, {.epoch_scale = 6},     {.epoch_value = 0},
  };
  Unit unit;
  for (std::size_t i = 0; i < refused.size(); ++i) {
    unit.start(refused[i]);
    EXPECT_EQ(unit.status() & kEnabled, 0U) << i;
    EXPECT_EQ(unit.read(kConf0) & kEnable, 0U) << i;
  }
  unit.start({.mode = kAlwaysOn, .epoch_scale = 0, .epoch_value = 0});
  EXPECT_EQ(unit.status() & kEnabled, 1U);
}

TEST(MonitorControlTest, HardResetInFlightLeavesNothing) {
  Unit unit;
  unit.start({});
  unit.accesses(0, 4);
  unit.hard_reset();
  ASSERT_TRUE(unit.settle());
  EXPECT_EQ(unit.read(kHeadTail), 0U);
  EXPECT_EQ(unit.read(kConf0), 0U);
  unit.start({});
  unit.accesses(0, 3);
  unit.drain();
  EXPECT_EQ(unit.tail(), 0U);
}

TEST(MonitorInterruptTest, ComesOnceForEachBitThatIsSetAndEnabled) {
  for (const std::uint64_t enabled : {std::uint64_t{0}, kInterruptOnLevel, kInterruptOnOverflow,
                                      kInterruptOnLevel | kInterruptOnOverflow}) {
    Unit unit;
    unit.start({.threshold = 1, .notification = 7, .interrupts = enabled});
    for (std::uint64_t i = 0; i < 7; ++i) unit.access(i * kUnit);
    unit.drain();
    EXPECT_EQ(unit.interrupts(), 0U);
    unit.access(7 * kUnit);
    unit.drain();
    EXPECT_EQ(unit.interrupts(), (enabled & kInterruptOnLevel) != 0 ? 1U : 0U);
    for (std::uint64_t i = 8; i < 20; ++i) unit.access(i * kUnit);
    unit.drain();
    EXPECT_EQ(unit.interrupts(), (enabled & kInterruptOnOverflow) != 0 ? 1U : 0U);
  }
}

TEST(MonitorInterruptTest, ALossInTheCycleOfTheClearIsNotForgotten) {
  // The entry of an access reaches the list 6 cycles later; the clear is tried around that.
  unsigned kept = 0;
  for (unsigned delay = 4; delay < 9; ++delay) {
    Unit unit;
    unit.start({.threshold = 1, .notification = 0xffff, .interrupts = kInterruptOnOverflow});
    for (std::uint64_t i = 0; i < kEntries; ++i) unit.access(i * kUnit);
    unit.drain();
    EXPECT_EQ(unit.interrupts(), 1U);
    unit.access(50 * kUnit);
    unit.ticks(delay - 1);
    unit.write(kStatus, kOverflow);
    unit.drain();
    // Lost before the clear: cleared. With it or after: told, by an interrupt, too.
    const bool told = (unit.status() & kOverflow) != 0;
    EXPECT_EQ(unit.interrupts(), told ? 1U : 0U) << delay;
    EXPECT_EQ(told, delay <= 6) << delay;
    kept += told ? 1U : 0U;
  }
  EXPECT_EQ(kept, 3U);
}

TEST(MonitorDriverTest, LivesAsLinuxHasIt) {
  Unit unit;
  const Configuration configuration{.threshold = 8,
                                    .unit_log2 = 17,
                                    .epoch_scale = 2,
                                    .epoch_value = 1,
                                    .notification = kEntries / 2,
                                    .interrupts = kInterruptOnOverflow | kInterruptOnLevel};
  unit.start(configuration);
  EXPECT_EQ(unit.status() & kEnabled, 1U);
  test::Random random = test::case_random(1);
  unsigned taken = 0;
  for (unsigned i = 0; i < 100'000; ++i) {
    // Four hot units of 128 KiB among cold ones.
    const bool hot = random() % 2 == 0;
    unit.access((hot ? 1000 + random() % 4 : random() % 6000) * 2 * kUnit + random() % (2 * kUnit),
                random() % 4 == 0);
    if (unit.interrupts() == 0) continue;
    const std::uint64_t status = unit.status();
    ASSERT_EQ(status & (kOverflow | kLevel), kLevel);
    for (const Entry& entry : unit.take()) {
      EXPECT_EQ(entry.count, 8U);
      EXPECT_EQ(entry.unit / 4, 250U);
      ++taken;
    }
    unit.write(kStatus, status);
  }
  ASSERT_TRUE(unit.stop());
  taken += static_cast<unsigned>(unit.take().size());
  // 50 epochs of 2,000 cycles, of which sweeps take some (7 each, once in 16).
  EXPECT_GE(taken, 4U * 20);
  EXPECT_LE(taken, 4U * 52);
}

}  // namespace
}  // namespace nearkv::rtl_test
