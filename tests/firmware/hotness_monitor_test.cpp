// Whose a monitor is, the firmware's or a host's; and one that fails.
#include "hotness.hpp"

namespace nearkv::testing {
namespace {

// Whenever a host takes a monitor, the firmware writes to it no more until it is free.
TEST(HotnessMonitor, LeavesAMonitorToAHostAtAnyTurn) {
  for (unsigned turns = 0; turns < 120; ++turns) {
    World world;
    world.accesses_per_ms = 4'000;
    world.set(kNear, World::on(1, 1));
    world.run(12 * kMs);
    // The first epochs: the threshold is raised.
    for (unsigned i = 0; i < turns; ++i) {
      if (!world.card.turn() && i % 3 == 0) {
        world.card.uptime_ns += kMs / 5;
        world.monitors[kNear].pass(kMs / 5);
        for (unsigned n = 0; n < 1'000; ++n) world.monitors[kNear].access(world.traffic.next());
      }
    }
    world.take(kNear);
    const std::uint64_t conf0 = world.monitors[kNear].conf0();
    const unsigned writes = world.writes[kNear];
    world.pause(50 * kMs);
    ASSERT_EQ(world.writes[kNear], writes) << turns;
    ASSERT_EQ(world.state(kNear), NKV_HOTNESS_STATE_HOST) << turns;
    ASSERT_TRUE(world.monitors[kNear].is_enabled());
    ASSERT_EQ(world.monitors[kNear].conf0(), conf0);
    world.stop(kNear);
    const unsigned epochs = world.list(kNear).epochs;
    world.run(40 * kMs);
    ASSERT_EQ(world.state(kNear), NKV_HOTNESS_STATE_COUNTING) << turns;
    ASSERT_GT(world.list(kNear).epochs, epochs) << turns;
  }
}

// Between a look and the write that it allows a host may come: that write, and no other. If it
// stops the monitor, the host's driver starts it again.
TEST(HotnessMonitor, WritesOnceAtMostAfterAHostCame) {
  for (unsigned number = 0; number < 250; ++number) {
    World world;
    world.accesses_per_ms = 4'000;
    bool has_host = false;
    unsigned writes = 0;
    world.before = [&](unsigned access) {
      if (access == number) {
        world.take(kNear);
        has_host = true;
        writes = world.writes[kNear];
      }
      return true;
    };
    world.set(kNear, World::on(1, 1));
    for (unsigned i = 0; i < 1'000 && !has_host; ++i) world.run(kMs / 10);
    ASSERT_TRUE(has_host);
    world.pause(kMs);
    ASSERT_LE(world.writes[kNear] - writes, 1U) << number;
    if (!world.monitors[kNear].is_enabled()) world.take(kNear);
    ASSERT_EQ(world.state(kNear), NKV_HOTNESS_STATE_HOST) << number;
    const unsigned settled = world.writes[kNear];
    world.pause(60 * kMs);
    ASSERT_EQ(world.writes[kNear], settled) << number;
  }
}

TEST(HotnessMonitor, TellsAHostFromItselfByAnyDifference) {
  for (const bool differs_in_conf0 : {false, true}) {
    World world;
    world.set(kNear, World::on());
    ASSERT_TRUE(world.run_epochs(kNear, 1));
    world.run(kMs);
    const Monitor& monitor = world.monitors[kNear];
    if (differs_in_conf0) {
      world.take(kNear, monitor.conf0() + 3, monitor.conf1());
    } else {
      world.take(kNear, monitor.conf0(), World::kConf1);
    }
    const unsigned writes = world.writes[kNear];
    world.run(50 * kMs);
    EXPECT_EQ(world.writes[kNear], writes);
    EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_HOST);
  }
}

TEST(HotnessMonitor, WaitsWhileAHostSetsAMonitorUp) {
  World world;
  world.set(kNear, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 1));
  world.stop(kNear);
  const unsigned writes = world.writes[kNear];
  world.run(9 * kMs);
  EXPECT_EQ(world.writes[kNear], writes) << "disabled, but perhaps not for long";
  world.take(kNear);
  world.run(100 * kMs);
  EXPECT_EQ(world.writes[kNear], writes);
  EXPECT_TRUE(world.monitors[kNear].is_enabled());
}

TEST(HotnessMonitor, BeginsAnewWhereAMonitorHasStopped) {
  World world;
  world.set(kNear, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 9)) << "the threshold stays";
  world.run(kMs);
  Monitor& monitor = world.monitors[kNear];
  monitor.write(Monitor::kConf0, monitor.conf0() & ~Monitor::kEnable);
  const unsigned epochs = world.list(kNear).epochs;
  world.run(60 * kMs);
  EXPECT_TRUE(monitor.is_enabled());
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_COUNTING);
  EXPECT_GT(world.list(kNear).epochs, epochs);
}

TEST(HotnessMonitor, GivesBackWhatAFirmwareHadThatWas) {
  for (unsigned number = 0; number < 120; ++number) {
    World world;
    world.accesses_per_ms = 4'000;
    world.set(kNear, World::on(1, 1));
    unsigned long accesses = 0;
    world.before = [&](unsigned access) {
      accesses = access;
      return access < number;
    };
    while (accesses < number) world.run(kMs / 10);
    world.before = [](unsigned) { return true; };
    world.card.start();
    EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_OFF);
    world.pause(20 * kMs);
    ASSERT_FALSE(world.monitors[kNear].is_enabled()) << number;
    ASSERT_EQ(world.monitors[kNear].conf0() & Monitor::kEnable, 0U) << number;
    world.set(kNear, World::on(1, 1));
    world.pause(60 * kMs);
    ASSERT_EQ(world.state(kNear), NKV_HOTNESS_STATE_COUNTING) << number;
  }
}

TEST(HotnessMonitor, LeavesAHostWhatAFirmwareHadThatWas) {
  World world;
  world.set(kNear, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 1));
  world.take(kNear);
  const unsigned writes = world.writes[kNear];
  world.card.start();
  world.run(50 * kMs);
  world.set(kNear, World::on());
  world.run(50 * kMs);
  EXPECT_EQ(world.writes[kNear], writes);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_HOST);
}

// Whichever access fails, the firmware says so and tries again.
TEST(HotnessMonitor, GoesOnAfterAnAccessThatFailed) {
  for (unsigned number = 0; number < 200; ++number) {
    World world;
    world.accesses_per_ms = 4'000;
    bool has_failed = false;
    world.before = [&](unsigned access) {
      has_failed |= access == number;
      return access != number;
    };
    world.set(kNear, World::on(1, 1));
    for (unsigned i = 0; i < 1'000 && !has_failed; ++i) world.run(kMs / 10);
    ASSERT_TRUE(has_failed);
    ASSERT_EQ(world.state(kNear), NKV_HOTNESS_STATE_ABSENT) << number;
    world.pause(1'100 * kMs);
    ASSERT_EQ(world.state(kNear), NKV_HOTNESS_STATE_COUNTING) << number;
  }
}

TEST(HotnessMonitor, AsksAMonitorThatDoesNotAnswerOnceASecond) {
  World world;
  world.set(kNear, World::on());
  world.set(kHost, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 2));
  world.before = [](unsigned) { return false; };
  const unsigned accesses = world.accesses;
  world.pause(5'000 * kMs);
  EXPECT_EQ(world.state(kHost), NKV_HOTNESS_STATE_ABSENT);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_ABSENT);
  EXPECT_LE(world.accesses - accesses, 12U);
  EXPECT_GE(world.accesses - accesses, 8U);
  EXPECT_GE(world.list(kNear).epochs, 2U) << "what was found stays";
  world.before = [](unsigned) { return true; };
  world.pause(1'100 * kMs);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_COUNTING);
}

TEST(HotnessMonitor, HoldsNothingUpWhileAnOperationDoesNotEnd) {
  World world;
  world.monitors[kNear].operation_reads = Monitor::kNever;
  world.set(kNear, World::on());
  world.set(kHost, World::on());
  world.card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, range(0, Card::kMemoryBytes).zeros(1));
  world.run(100 * kMs);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_STARTING);
  EXPECT_EQ(world.state(kHost), NKV_HOTNESS_STATE_COUNTING);
  const Answer background = world.card.execute(NKV_CCI_OPCODE_GET_BACKGROUND);
  EXPECT_EQ(background.number(0, 1) & 1, 0U) << "the scan is done";
  world.pause(1'000 * kMs);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_ABSENT);
  const unsigned writes = world.writes[kNear];
  world.pause(3'000 * kMs);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_ABSENT);
  EXPECT_EQ(world.writes[kNear], writes) << "no other while one is in progress";
}

TEST(HotnessMonitor, SharesTurnsWithAllElse) {
  World world;
  world.accesses_per_ms = 2'000;
  world.set(kNear, World::on());
  world.set(kHost, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 6));
  ASSERT_TRUE(world.run_epochs(kHost, 6));
  const unsigned epochs = world.list(kNear).epochs;
  world.card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, range(0, Card::kMemoryBytes).zeros(1));
  world.card.uptime_ns += 10 * kMs;
  const unsigned reads[2] = {world.reads[kHost], world.reads[kNear]};
  for (unsigned i = 0; i < 4; ++i) world.turn();
  EXPECT_GT(world.reads[kHost], reads[kHost]);
  EXPECT_GT(world.reads[kNear], reads[kNear]);
  for (unsigned i = 0; i < 100; ++i) world.turn();
  EXPECT_EQ(world.list(kNear).epochs, epochs + 1);
  const Answer background = world.card.execute(NKV_CCI_OPCODE_GET_BACKGROUND);
  EXPECT_EQ(background.number(0, 1) & 1, 1U) << "the scan goes on";
  EXPECT_GT(background.number(0, 1) >> 1, 0U) << "and comes on";
}

}  // namespace
}  // namespace nearkv::testing
