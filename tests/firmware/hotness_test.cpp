// What the firmware finds while no host counts: which units, how many, of which epoch.
#include "hotness.hpp"

namespace nearkv::testing {
namespace {

TEST(Hotness, IsOffAtFirst) {
  World world;
  world.pause(2'000 * kMs);
  EXPECT_EQ(world.accesses, 0U);
  EXPECT_EQ(world.state(kHost), NKV_HOTNESS_STATE_OFF);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_OFF);
  EXPECT_EQ(world.list(kNear).epochs, 0U);
}

TEST(Hotness, RefusesSettingsThatThereAreNot) {
  World world;
  const auto status = [&](auto change) {
    nkv_hotness_setting setting = World::on();
    change(setting);
    return world.set_both(World::on(), setting);
  };
  constexpr auto kInvalid = NKV_CCI_STATUS_INVALID_INPUT;
  EXPECT_EQ(status([](auto& setting) { setting.enabled = 2; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.unit_log2 = 7; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.unit_log2 = 40; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.epoch_ms = 0; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.epoch_ms = NKV_HOTNESS_EPOCH_MS + 1; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.units = 0; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.units = NKV_HOTNESS_UNITS + 1; }), kInvalid);
  EXPECT_EQ(status([](auto& setting) { setting.reserved = 1; }), kInvalid);
  EXPECT_EQ(world.state(kHost), NKV_HOTNESS_STATE_OFF) << "nor does the other one's hold";
  EXPECT_EQ(status([](auto& setting) {
              setting.epoch_ms = NKV_HOTNESS_EPOCH_MS;
              setting.units = NKV_HOTNESS_UNITS;
            }),
            NKV_CCI_STATUS_SUCCESS);
  const Answer answer = get_feature(world.card, world.feature(), 0, 32);
  EXPECT_EQ(answer.number(0, 8), 0x20'000A'0C'01U);
  EXPECT_EQ(answer.number(8, 8), 0x40'0FFF'0C'01U);
  EXPECT_EQ(answer.number(16, 1), unsigned{NKV_HOTNESS_STATE_STARTING});
}

// Of any traffic about as many units as are wanted, and the right ones.
TEST(Hotness, FindsAboutAsManyUnitsAsAreWanted) {
  for (const unsigned accesses_per_ms : {200U, 1'000U, 10'000U}) {
    for (const unsigned wanted : {4U, 32U, 64U}) {
      World world;
      world.accesses_per_ms = accesses_per_ms;
      world.set(kHost, World::on(20, static_cast<std::uint16_t>(wanted)));
      world.set(kNear, World::on(10, static_cast<std::uint16_t>(wanted)));
      ASSERT_TRUE(world.run_epochs(kNear, 8));
      ASSERT_TRUE(world.run_epochs(kHost, 8));
      for (const unsigned which : {kHost, kNear}) {
        const nkv_hotness_list list = world.list(which);
        EXPECT_EQ(list.state, NKV_HOTNESS_STATE_COUNTING);
        EXPECT_GE(2 * list.listed, wanted) << accesses_per_ms;
        EXPECT_LE(list.listed, 2 * wanted) << accesses_per_ms;
        EXPECT_GE(list.units, std::min<unsigned>(list.listed, NKV_HOTNESS_UNITS) * 3 / 4);
        EXPECT_EQ(list.has_lost, 0);
        EXPECT_EQ(list.unit_log2, 12);
        EXPECT_EQ(list.epoch_ms, which == kHost ? 20 : 10);
        EXPECT_EQ(list.threshold, world.monitors[which].threshold());
        std::set<std::uint64_t> hottest;
        for (unsigned rank = 0; rank < 4 * std::max<unsigned>(wanted, list.units); ++rank) {
          hottest.insert(Traffic::address(rank) & ~(kUnitBytes - 1));
        }
        std::set<std::uint64_t> found;
        for (unsigned i = 0; i < NKV_HOTNESS_UNITS; ++i) {
          if (i < list.units) {
            EXPECT_TRUE(hottest.contains(list.addresses[i]));
            EXPECT_TRUE(found.insert(list.addresses[i]).second) << "twice";
          } else {
            EXPECT_EQ(list.addresses[i], 0U);
          }
        }
      }
    }
  }
}

TEST(Hotness, KeepsTheFirstOfMoreUnitsThanItHasRoomFor) {
  World world;
  world.accesses_per_ms = 100'000;
  world.set(kNear, World::on(10, 4));
  ASSERT_TRUE(world.run_epochs(kNear, 1));
  const nkv_hotness_list list = world.list(kNear);
  EXPECT_GT(list.listed, 2U * NKV_HOTNESS_UNITS);
  EXPECT_EQ(list.units, unsigned{NKV_HOTNESS_UNITS});
  EXPECT_EQ(list.threshold, 64U);
  EXPECT_EQ(list.addresses[0], Traffic::address(0)) << "the hottest comes first";
  EXPECT_EQ(world.status(kNear).threshold, 128U);
  world.run(2 * kMs);
  EXPECT_EQ(world.monitors[kNear].threshold(), 128U);
}

TEST(Hotness, SaysThatTheMonitorsListWasFull) {
  World world;
  world.monitors[kNear] = Monitor(16);
  world.accesses_per_ms = 20'000;
  world.set(kNear, World::on(10, 64));
  ASSERT_TRUE(world.run_epochs(kNear, 1));
  EXPECT_EQ(world.list(kNear).has_lost, 1);
  EXPECT_EQ(world.list(kNear).listed, 15U) << "fewer than are wanted";
  EXPECT_EQ(world.status(kNear).threshold, 128U) << "and still too many";
  ASSERT_TRUE(world.run_epochs(kNear, 12));
  EXPECT_EQ(world.list(kNear).has_lost, 0) << "it was forgotten";
}

TEST(Hotness, CountsEachAccessWhereThereAreFew) {
  World world;
  world.set(kNear, World::on(10, 8));
  ASSERT_TRUE(world.run_epochs(kNear, 9));
  EXPECT_EQ(world.status(kNear).threshold, 1U);
  EXPECT_EQ(world.list(kNear).listed, 0U);
  world.run(kMs);
  world.monitors[kNear].access(5 * kUnitBytes + 17);
  world.monitors[kNear].access(Card::kMemoryBytes + kUnitBytes);
  ASSERT_TRUE(world.run_epochs(kNear, 10));
  const nkv_hotness_list list = world.list(kNear);
  EXPECT_EQ(list.listed, 2U);
  ASSERT_EQ(list.units, 1U) << "of the memory that there is";
  EXPECT_EQ(list.addresses[0], 5 * kUnitBytes);
  EXPECT_EQ(list.threshold, 1U);
}

TEST(Hotness, FollowsTheListAroundItsEnd) {
  World world;
  world.monitors[kNear] = Monitor(8);
  world.set(kNear, World::on(10, 4));
  ASSERT_TRUE(world.run_epochs(kNear, 9));
  for (unsigned epoch = 10; epoch < 20; ++epoch) {
    world.run(kMs);
    for (std::uint64_t i = 0; i < 3; ++i) world.monitors[kNear].access((epoch + i) * kUnitBytes);
    ASSERT_TRUE(world.run_epochs(kNear, epoch));
    const nkv_hotness_list list = world.list(kNear);
    ASSERT_EQ(list.listed, 3U);
    ASSERT_EQ(list.units, 3U);
    for (unsigned i = 0; i < 3; ++i) ASSERT_EQ(list.addresses[i], (epoch + i) * kUnitBytes);
  }
}

TEST(Hotness, StaysBelowAThresholdThatTheMonitorRefuses) {
  World world;
  world.monitors[kNear].largest_threshold = 300;
  world.accesses_per_ms = 10'000;
  world.set(kNear, World::on(10, 1));
  ASSERT_TRUE(world.run_epochs(kNear, 8));
  EXPECT_EQ(world.list(kNear).threshold, 256U);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_COUNTING);
  const unsigned writes = world.writes[kNear];
  ASSERT_TRUE(world.run_epochs(kNear, 12));
  EXPECT_LE(world.writes[kNear] - writes, 8U) << "it does not try again";
}

TEST(Hotness, SaysWhatTheMonitorCannotDo) {
  const auto state = [](auto change, nkv_hotness_setting setting = World::on()) {
    World world;
    change(world.monitors[kNear]);
    world.set(kNear, setting);
    world.run(500 * kMs);
    EXPECT_EQ(world.writes[kNear] == 0, world.state(kNear) != NKV_HOTNESS_STATE_COUNTING);
    return world.state(kNear);
  };
  nkv_hotness_setting large = World::on();
  large.unit_log2 = 14;
  EXPECT_EQ(state([](Monitor&) {}), NKV_HOTNESS_STATE_COUNTING);
  EXPECT_EQ(state([](Monitor&) {}, large), NKV_HOTNESS_STATE_UNFIT);
  EXPECT_EQ(state([](Monitor& monitor) { monitor.has_epochs = false; }), NKV_HOTNESS_STATE_UNFIT);
  EXPECT_EQ(state([](Monitor& monitor) { monitor.longest_scale = 1; }, World::on(1'000)),
            NKV_HOTNESS_STATE_UNFIT);
  EXPECT_EQ(state([](Monitor& monitor) { monitor.version = 2; }), NKV_HOTNESS_STATE_ABSENT);
  EXPECT_EQ(state([](Monitor& monitor) { monitor.version = 0; }), NKV_HOTNESS_STATE_ABSENT);
}

TEST(Hotness, GivesUpAMonitorThatRefusesAll) {
  World world;
  world.monitors[kNear].largest_threshold = 0;
  world.set(kNear, World::on());
  world.run(500 * kMs);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_UNFIT);
  EXPECT_EQ(world.monitors[kNear].conf0(), 0U);
  const unsigned accesses = world.accesses;
  world.pause(2'000 * kMs);
  EXPECT_EQ(world.accesses, accesses);
}

TEST(Hotness, BeginsAnewWithAnotherSettingAndEndsWithNone) {
  World world;
  world.accesses_per_ms = 2'000;
  world.set(kHost, World::on());
  world.set(kNear, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 6));
  const unsigned epochs = world.list(kHost).epochs;
  nkv_hotness_setting other = World::on();
  other.unit_log2 = 13;
  world.set(kNear, other);
  EXPECT_EQ(world.list(kNear).epochs, 0U);
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_STARTING);
  ASSERT_TRUE(world.run_epochs(kNear, 4));
  EXPECT_EQ(world.list(kNear).unit_log2, 13);
  for (unsigned i = 0; i < world.list(kNear).units; ++i) {
    EXPECT_EQ(world.list(kNear).addresses[i] % (2 * kUnitBytes), 0U);
  }
  EXPECT_GT(world.list(kHost).epochs, epochs) << "the other one has gone on";

  world.set(kNear, World::off());
  EXPECT_EQ(world.state(kNear), NKV_HOTNESS_STATE_OFF);
  world.run(5 * kMs);
  EXPECT_FALSE(world.monitors[kNear].is_enabled());
  EXPECT_EQ(world.monitors[kNear].conf0(), 0U);
  EXPECT_TRUE(world.monitors[kHost].is_enabled());
}

TEST(Hotness, TellsWhenAnEpochEnded) {
  constexpr std::uint64_t kSetNs = 1'700'000'000'000'000'000;
  World world;
  world.set(kNear, World::on());
  ASSERT_TRUE(world.run_epochs(kNear, 9)) << "the threshold stays";
  world.card.uptime_ns += kMs / 20;
  ASSERT_TRUE(world.run_epochs(kNear, 10));
  EXPECT_EQ(world.list(kNear).end_ns, 0U) << "nobody told the time";
  world.card.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, Payload().number(kSetNs, 8));
  const std::uint64_t set_ns = world.card.uptime_ns;
  world.card.uptime_ns += kMs / 40;
  ASSERT_TRUE(world.run_epochs(kNear, 11));
  const std::uint64_t end_ns = world.list(kNear).end_ns;
  EXPECT_GT(end_ns, kSetNs);
  EXPECT_LE(end_ns, kSetNs + world.card.uptime_ns - set_ns);
  world.card.uptime_ns += kMs / 30;
  ASSERT_TRUE(world.run_epochs(kNear, 12));
  EXPECT_EQ(world.list(kNear).end_ns, end_ns + 10 * kMs) << "whenever the firmware came to it";
}

TEST(Hotness, LeavesOutWhatIsMuchMoreThanAnEpoch) {
  World world;
  world.accesses_per_ms = 1'000;
  world.set(kNear, World::on(10));
  ASSERT_TRUE(world.run_epochs(kNear, 6));
  const nkv_hotness_list before = world.list(kNear);
  // The loop is held up, and traffic is not.
  for (unsigned i = 0; i < 20'000; ++i) world.monitors[kNear].access(world.traffic.next());
  world.card.uptime_ns += 25 * kMs;
  world.run(5 * kMs);
  EXPECT_EQ(world.list(kNear).epochs, before.epochs);
  ASSERT_TRUE(world.run_epochs(kNear, before.epochs + 1));
  EXPECT_LE(world.list(kNear).listed, 64U) << "what came meanwhile is gone";
  EXPECT_EQ(world.list(kNear).threshold, before.threshold);
}

TEST(Hotness, TellsAUnitOnceThatComesTwice) {
  World world;
  world.set(kNear, World::on(10, 8));
  ASSERT_TRUE(world.run_epochs(kNear, 9));
  world.run(kMs);
  // The monitor's clock is ahead: its next epoch begins within the firmware's.
  world.monitors[kNear].access(kUnitBytes);
  world.monitors[kNear].pass(10 * kMs);
  world.monitors[kNear].access(kUnitBytes);
  world.monitors[kNear].access(2 * kUnitBytes);
  ASSERT_TRUE(world.run_epochs(kNear, 10));
  const nkv_hotness_list list = world.list(kNear);
  EXPECT_EQ(list.listed, 3U);
  ASSERT_EQ(list.units, 2U);
  EXPECT_EQ(list.addresses[0], kUnitBytes);
  EXPECT_EQ(list.addresses[1], 2 * kUnitBytes);
}

}  // namespace
}  // namespace nearkv::testing
