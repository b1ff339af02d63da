// What the firmware counts while no host does, by monitors that are played here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "card.hpp"
#include "features.hpp"
#include "monitor.hpp"

namespace nearkv::testing {
namespace {

constexpr unsigned kHost = NKV_CARD_MONITOR_HOST;
constexpr unsigned kNear = NKV_CARD_MONITOR_NEAR;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBlockBytes = 8 * NKV_HOTNESS_WORDS;
constexpr std::uint64_t kUnitBytes = 4096;

/// Units by a Zipf law, far from each other.
class Traffic {
 public:
  static std::uint64_t address(std::uint64_t rank) {
    return rank * 7919 % 200'000 * kUnitBytes + rank % 64 * 64;
  }
  std::uint64_t next() {
    static const std::vector<double> sums = make_sums();
    const double at = static_cast<double>(random_()) * 0x1p-64 * sums.back();
    return address(static_cast<std::uint64_t>(std::ranges::upper_bound(sums, at) - sums.begin()));
  }

 private:
  static std::vector<double> make_sums() {
    std::vector<double> sums;
    for (unsigned rank = 1; rank <= 20'000; ++rank) {
      sums.push_back((sums.empty() ? 0 : sums.back()) + 1.0 / rank);
    }
    return sums;
  }

  std::mt19937_64 random_{7};
};

/// A card with two monitors, and a host's driver that may take them.
class World {
 public:
  static nkv_hotness_setting off() {
    return {.enabled = 0, .unit_log2 = 12, .epoch_ms = 100, .units = 32, .reserved = 0};
  }
  static nkv_hotness_setting on(std::uint16_t epoch_ms = 10, std::uint16_t units = 32) {
    return {.enabled = 1, .unit_log2 = 12, .epoch_ms = epoch_ms, .units = units, .reserved = 0};
  }

  World() {
    card.play = [this](std::uint32_t offset, std::uint64_t* value, bool is_write) {
      return access(offset, value, is_write);
    };
    while (card.turn()) {
    }
    accesses = 0;
  }

  Monitor monitors[2];
  Card card;
  unsigned accesses = 0;        ///< Of the firmware to monitors.
  unsigned writes[2] = {0, 0};  ///< Of these, by monitor.
  unsigned reads[2] = {0, 0};   ///< So too.
  /// Before the access of this number; whether it is then answered.
  std::function<bool(unsigned number)> before = [](unsigned) { return true; };
  Traffic traffic;
  unsigned accesses_per_ms = 0;  ///< Of traffic, to both monitors.

  nkv_cci_status set(unsigned which, const nkv_hotness_setting& setting) {
    settings_[which] = setting;
    return set_both(settings_[0], settings_[1]);
  }
  nkv_cci_status set_both(const nkv_hotness_setting& host, const nkv_hotness_setting& near) {
    std::vector<std::uint8_t> bytes(2 * sizeof(host));
    std::memcpy(bytes.data(), &host, sizeof(host));
    std::memcpy(bytes.data() + sizeof(host), &near, sizeof(near));
    return set_feature(card, feature(), NKV_CCI_TRANSFER_FULL, 0, bytes);
  }
  nkv_hotness_status status(unsigned which) {
    const Answer answer = get_feature(card, feature(), 16 + 8 * which, 8);
    nkv_hotness_status status{};
    EXPECT_EQ(answer.bytes.size(), sizeof(status));
    std::memcpy(&status, answer.bytes.data(), std::min(answer.bytes.size(), sizeof(status)));
    return status;
  }
  nkv_hotness_state state(unsigned which) {
    return static_cast<nkv_hotness_state>(status(which).state);
  }
  nkv_hotness_list list(unsigned which) {
    const Answer logs = card.execute(NKV_CCI_OPCODE_GET_SUPPORTED_LOGS);
    const std::size_t entry = 8 + 20 * std::size_t{NKV_CARD_LOG_HOTNESS};
    EXPECT_EQ(logs.number(entry + 16, 4), 2 * sizeof(nkv_hotness_list));
    const std::span uuid(logs.bytes.data() + entry, 16);
    const Answer answer =
        card.execute(NKV_CCI_OPCODE_GET_LOG,
                     log_part(uuid, which * sizeof(nkv_hotness_list), sizeof(nkv_hotness_list)));
    nkv_hotness_list list{};
    EXPECT_EQ(answer.bytes.size(), sizeof(list));
    std::memcpy(&list, answer.bytes.data(), std::min(answer.bytes.size(), sizeof(list)));
    return list;
  }

  /// A turn of the firmware's loop, of so few accesses that a host does not notice.
  bool turn() {
    const unsigned first = accesses;
    const bool did = card.turn();
    EXPECT_LE(accesses - first, 12U);
    return did;
  }
  /// Time passes with traffic and turns.
  void run(std::uint64_t ns, std::uint64_t step_ns = kMs / 10) {
    for (const std::uint64_t end = card.uptime_ns + ns; card.uptime_ns < end;) {
      card.uptime_ns += step_ns;
      for (Monitor& monitor : monitors) monitor.pass(step_ns);
      for (unsigned i = 0; i < accesses_per_ms * step_ns / kMs; ++i) {
        const std::uint64_t address = traffic.next();
        for (Monitor& monitor : monitors) monitor.access(address);
      }
      // While it waits for an operation there is nothing to do, and it looks.
      for (unsigned idle = 0, i = 0; i < 60 && idle < 6; ++i) idle = turn() ? 0 : idle + 1;
    }
  }
  /// The same without traffic, and with less of a look.
  void pause(std::uint64_t ns) {
    accesses_per_ms = 0;
    run(ns, kMs);
  }
  /// Until the monitor has counted so many epochs.
  bool run_epochs(unsigned which, unsigned epochs) {
    for (unsigned ms = 0; ms < 20'000 && list(which).epochs < epochs; ++ms) run(kMs);
    return list(which).epochs >= epochs;
  }

  /// As a driver starts and stops a monitor.
  static constexpr std::uint64_t kConf0 = std::uint64_t{500} << 32 | 6;
  static constexpr std::uint64_t kConf1 =
      13 | std::uint64_t{4} << 48 | std::uint64_t{1} << 52;  // 8 KiB, 100 ms.
  void take(unsigned which, std::uint64_t conf0 = kConf0, std::uint64_t conf1 = kConf1) {
    Monitor& monitor = monitors[which];
    stop(which);
    monitor.write(Monitor::kHeadTail, monitor.read(Monitor::kHeadTail) >> 16);
    for (unsigned word = 0; word < 6; ++word) monitor.write(0x80 + 8 * word, 1);
    monitor.write(Monitor::kConf1, conf1);
    monitor.write(Monitor::kConf0, conf0 | Monitor::kEnable);
    settle(which);
  }
  void stop(unsigned which) {
    monitors[which].write(Monitor::kConf0, 0);
    settle(which);
  }

  Feature feature() { return find_feature(card, NKV_CARD_FEATURE_HOTNESS); }

 private:
  bool access(std::uint32_t offset, std::uint64_t* value, bool is_write) {
    *value = is_write ? *value : offset == NKV_REG_ID ? NKV_ABI_ID : 0;
    for (unsigned which = 0; which < 2; ++which) {
      const std::uint32_t block =
          which == kHost ? NKV_REG_HOST_HOTNESS(0) : NKV_REG_NEAR_HOTNESS(0);
      if (offset < block || offset >= block + kBlockBytes) continue;
      if (!before(accesses++)) return false;
      if (!is_write) {
        ++reads[which];
        *value = monitors[which].read(offset - block);
        continue;
      }
      ++writes[which];
      monitors[which].write(offset - block, *value);
    }
    return true;
  }
  void settle(unsigned which) {
    for (unsigned i = 0; i < 10; ++i) monitors[which].read(Monitor::kStatus);
  }

  nkv_hotness_setting settings_[2] = {off(), off()};
};

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

// Whenever a host takes a monitor, the firmware writes to it no more until it is free.
TEST(Hotness, LeavesAMonitorToAHostAtAnyTurn) {
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
TEST(Hotness, WritesOnceAtMostAfterAHostCame) {
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

TEST(Hotness, TellsAHostFromItselfByAnyDifference) {
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

TEST(Hotness, WaitsWhileAHostSetsAMonitorUp) {
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

TEST(Hotness, BeginsAnewWhereAMonitorHasStopped) {
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

TEST(Hotness, GivesBackWhatAFirmwareHadThatWas) {
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

TEST(Hotness, LeavesAHostWhatAFirmwareHadThatWas) {
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
TEST(Hotness, GoesOnAfterAnAccessThatFailed) {
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

TEST(Hotness, AsksAMonitorThatDoesNotAnswerOnceASecond) {
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

TEST(Hotness, HoldsNothingUpWhileAnOperationDoesNotEnd) {
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

TEST(Hotness, SharesTurnsWithAllElse) {
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
