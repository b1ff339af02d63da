// Who waits for whom on the inline path, in cycles: what it adds, shares, ages, the host's latency
// beside an engine that reads all the time, and what DevLoad says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "inline_path.hpp"

namespace nearkv::rtl_test {
namespace {

using test::Random;

constexpr std::uint64_t kAllBytes = ~std::uint64_t{0};
constexpr unsigned kAdded = 3;             // Cycles that the path adds.
constexpr std::uint64_t kNearLine = 4096;  // Near-data's lines begin here.
constexpr unsigned kNeverAges = 1023;
constexpr unsigned kNearLeast =
    16;  // Of near-data's reads may be in flight whatever the host does.

enum Load : std::uint8_t { kLight, kOptimal, kModerate, kSevere };

/// Near-data always has a read for slice 0 to offer.
void keep_near_reading(InlinePath& path) {
  static unsigned next = 0;
  for (unsigned i = 0; path.near_reads_queued() < 6 && i < 6; ++i) {
    path.near_read(line_in_slice(0, kNearLine + next % 64), 1);
    ++next;
  }
}

void keep_host_reading(InlinePath& path, Random& random) {
  while (path.host_reads_queued(0) < 4) path.host_read(line_in_slice(0, random() % 1024));
}

/// The longest run of one side's accesses with the other's on both sides, or with `of_near` of
/// near's.
unsigned longest_run(const std::vector<InlinePath::Taken>& taken, bool of_near) {
  unsigned longest = 0;
  unsigned run = 0;
  for (const InlinePath::Taken& access : taken) {
    run = access.is_near == of_near ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

/// Reads that memory takes while both sides always ask.
std::vector<InlinePath::Taken> contended_reads(InlinePath& path, unsigned cycles, Random& random) {
  const auto run = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      keep_near_reading(path);
      keep_host_reading(path, random);
      path.cycle();
    }
  };
  run(100);
  path.clear_records();
  run(cycles);
  return path.reads_taken[0];
}

TEST(InlineSharingTest, AnIdlePathAddsThreeCycles) {
  InlinePath path;
  for (const unsigned latency : {1U, 20U, 60U}) {
    path.set_manner({.latency = latency});
    for (unsigned slice = 0; slice < kSlices; ++slice) {
      path.clear_records();
      path.host_read(line_in_slice(slice, 5));
      path.host_write(line_in_slice(slice, 6), {}, kAllBytes);
      ASSERT_TRUE(path.drain());
      ASSERT_EQ(path.host_read_cycles, (std::vector<unsigned>{latency + kAdded}));
      ASSERT_EQ(path.host_write_cycles, (std::vector<unsigned>{latency + kAdded}));
    }
  }
}

TEST(InlineSharingTest, TheHostAloneMovesABurstPerCycleEachWay) {
  Random random = test::case_random(1);
  InlinePath path;
  const auto run = [&](unsigned cycles) {
    for (unsigned i = 0; i < cycles; ++i) {
      keep_host_reading(path, random);
      path.host_write(line_in_slice(0, 2048 + i % 200), {}, kAllBytes);
      path.cycle();
    }
  };
  run(100);
  path.clear_records();
  run(1000);
  EXPECT_GE(path.reads_taken[0].size(), 1000U);
  EXPECT_GE(path.writes_taken[0].size(), 1000U);
}

TEST(InlineSharingTest, NearDataGetsItsShareWhileTheHostAsksForAll) {
  Random random = test::case_random(2);
  for (unsigned share = 0; share < 16; ++share) {
    SCOPED_TRACE(share);
    InlinePath path;
    path.ports().control_share_i = static_cast<std::uint8_t>(share);
    path.ports().control_age_cycles_i = kNeverAges;
    const auto taken = contended_reads(path, 320, random);
    ASSERT_EQ(taken.size(), 320U);  // Nothing is wasted.
    for (std::size_t first = 0; first + 16 <= taken.size(); ++first) {
      const auto window = std::span(taken).subspan(first, 16);
      ASSERT_EQ(std::ranges::count_if(window, &InlinePath::Taken::is_near), share) << first;
    }
    ASSERT_LE(longest_run(taken, true), 15 / (16 - share) + 1);
  }
}

TEST(InlineSharingTest, NearDataIsServedWhenItHasWaitedLongEnough) {
  Random random = test::case_random(3);
  for (const unsigned age : {0U, 1U, 2U, 7U, 64U, 300U}) {
    SCOPED_TRACE(age);
    InlinePath path;
    path.ports().control_share_i = 0;
    path.ports().control_age_cycles_i = static_cast<std::uint16_t>(age);
    const auto taken = contended_reads(path, 1500, random);
    EXPECT_EQ(longest_run(taken, false), std::max(age, 1U));
    EXPECT_EQ(longest_run(taken, true), 1U);
  }
}

TEST(InlineSharingTest, BothBoundsHoldWhenMemoryIsSlow) {
  Random random = test::case_random(4);
  for (unsigned number = 0; number < 40; ++number) {
    const unsigned share = number % 16;
    const unsigned age = test::pick(random, 0, 40);
    SCOPED_TRACE("share " + std::to_string(share) + ", age " + std::to_string(age));
    InlinePath path(number);
    path.set_manner({.memory_pace = kPaces[number % 3]});
    path.ports().control_share_i = static_cast<std::uint8_t>(share);
    path.ports().control_age_cycles_i = static_cast<std::uint16_t>(age);
    const auto taken = contended_reads(path, 3000, random);
    EXPECT_LE(longest_run(taken, false), std::max(age, 1U));
    EXPECT_LE(longest_run(taken, true), 15 / (16 - share) + 1);
  }
}

TEST(InlineSharingTest, NearWritesHaveTheirShareToo) {
  InlinePath path;
  path.ports().control_share_i = 3;
  path.ports().control_age_cycles_i = kNeverAges;
  std::uint64_t host = 0;
  std::uint64_t near = 0;
  for (unsigned i = 0; i < 600; ++i) {
    for (unsigned n = 0; n < 2; ++n) {
      path.host_write(line_in_slice(0, host++ % 1024), {}, kAllBytes);
      path.near_write(line_in_slice(0, kNearLine + near++ % 1024), {});
    }
    path.cycle();
    if (i == 100) path.clear_records();
  }
  const auto& taken = path.writes_taken[0];
  for (std::size_t first = 0; first + 16 <= taken.size(); ++first) {
    const auto window = std::span(taken).subspan(first, 16);
    ASSERT_EQ(std::ranges::count_if(window, &InlinePath::Taken::is_near), 3) << first;
  }
}

// Memory as a DRAM channel: 60 cycles late, in order, 6 of 8 cycles' worth of its port, and away
// for a refresh of 350 ns every 7.8 us at 400 MHz. Less than the engine asks for, so what is in
// flight queues.
constexpr Manner kDram = {.latency = 60, .serve_pace = 6, .pause_every = 3120, .pause_cycles = 140};

unsigned percentile(std::vector<unsigned> cycles, unsigned per_mille) {
  std::ranges::sort(cycles);
  return cycles.at((cycles.size() - 1) * per_mille / 1000);
}

/// Near-data's reads per cycle, of those that memory took since records were cleared.
double near_rate(const InlinePath& path, unsigned cycles) {
  return static_cast<double>(
             std::ranges::count_if(path.reads_taken[0], &InlinePath::Taken::is_near)) /
         cycles;
}

void print_latency(const char* load, unsigned limit, const InlinePath& path, double rate) {
  std::printf(
      "%s, read limit %3u: host p50 %3u, p99 %3u, most %3u cycles; "
      "near-data %.2f bursts/cycle\n",
      load, limit, percentile(path.host_read_cycles, 500), percentile(path.host_read_cycles, 990),
      percentile(path.host_read_cycles, 1000), rate);
}

// A host that waits for each answer before it asks again.
TEST(InlineSharingTest, AHostsReadIsBoundedUnderFullNearDataLoad) {
  for (const unsigned limit : {48U, 64U, 72U, 128U}) {
    Random random = test::case_random(limit);
    InlinePath path(limit);
    path.set_manner(kDram);
    path.ports().control_read_limit_i = static_cast<std::uint16_t>(limit);
    const auto cycle = [&path] {
      keep_near_reading(path);
      path.cycle();
    };
    for (unsigned i = 0; i < 300; ++i) cycle();
    path.clear_records();
    const std::uint64_t begin = path.now();
    for (unsigned n = 0; n < 1000; ++n) {
      path.host_read(line_in_slice(0, random() % 1024));
      while (path.host_read_cycles.size() <= n) cycle();
      for (unsigned gap = test::pick(random, 1, 40); gap > 0; --gap) cycle();
    }
    print_latency("one host read at a time", limit, path,
                  near_rate(path, static_cast<unsigned>(path.now() - begin)));
    const unsigned behind = (limit + 2) * 8 / kDram.serve_pace + 2;
    EXPECT_LE(percentile(path.host_read_cycles, 1000),
              std::max(kDram.latency, behind) + kDram.pause_cycles + kAdded + 2);
    EXPECT_LE(percentile(path.host_read_cycles, 900), std::max(kDram.latency, behind) + kAdded + 2);
    ASSERT_TRUE(path.drain());
  }
}

// A host that asks at random in so many of 100 cycles, up to what may be in flight.
TEST(InlineSharingTest, AHostsLoadIsServedBesideFullNearDataLoad) {
  constexpr unsigned kCycles = 31200;
  for (const unsigned percent : {10U, 25U, 50U}) {
    for (const unsigned limit : {0U, 48U, 64U, 72U, 128U}) {  // 0: the engine is idle.
      Random random = test::case_random(percent);
      InlinePath path(percent);
      path.set_manner(kDram);
      path.ports().control_read_limit_i = static_cast<std::uint16_t>(limit);
      for (unsigned i = 0; i < kCycles + 500; ++i) {
        if (i == 500) path.clear_records();
        if (limit != 0) keep_near_reading(path);
        if (path.host_reads_queued(0) < 16 && random() % 100 < percent) {
          path.host_read(line_in_slice(0, random() % 1024));
        }
        path.cycle();
      }
      const std::string load = "host load " + std::to_string(percent) + " %";
      print_latency(load.c_str(), limit, path, near_rate(path, kCycles));
      const unsigned ahead = std::max(limit, kHostCredits + kNearLeast) + 3;
      EXPECT_LE(percentile(path.host_read_cycles, 990),
                ahead * 8 / kDram.serve_pace + kDram.pause_cycles + kAdded + 4);
      // Near-data takes what the host leaves.
      if (limit != 0) {
        EXPECT_GE(path.reads_taken[0].size(), kCycles * 0.7);
      }
    }
  }
}

// Where memory keeps up with its port, the host hardly feels the engine.
TEST(InlineSharingTest, BesideAMemoryAsFastAsItsPortTheHostWaitsOneCycle) {
  Random random = test::case_random(6);
  InlinePath path(6);
  path.set_manner({.latency = 60});
  for (unsigned i = 0; i < 20000; ++i) {
    keep_near_reading(path);
    if (random() % 4 == 0) path.host_read(line_in_slice(0, random() % 1024));
    path.cycle();
    if (i == 500) path.clear_records();
  }
  EXPECT_LE(percentile(path.host_read_cycles, 990), 60 + kAdded + 1);
  EXPECT_GE(path.reads_taken[0].size(), 19000U);
}

TEST(InlineSharingTest, NearDataStopsAtItsLimitButMayAlwaysHaveSome) {
  struct Case {
    unsigned least, limit, host_reads, near_reads;
  };
  for (const Case& test :
       {Case{16, 48, 0, 49}, Case{16, 48, 20, 29}, Case{16, 48, 60, 17}, Case{16, 0, 0, 17},
        Case{0, 0, 0, 2}, Case{0, 0, 30, 2}, Case{0, kNoLimit, 0, 128}}) {
    InlinePath path;
    path.set_manner({.latency = 5000});
    path.ports().control_near_least_i = static_cast<std::uint16_t>(test.least);
    path.ports().control_read_limit_i = static_cast<std::uint16_t>(test.limit);
    for (unsigned i = 0; i < test.host_reads; ++i) path.host_read(line_in_slice(0, i));
    path.cycles(100);
    path.clear_records();
    for (unsigned i = 0; i < 128; ++i) path.near_read(line_in_slice(0, kNearLine + i), 1);
    path.cycles(300);
    // One more than allowed: it looks at what was in flight a cycle before.
    EXPECT_EQ(path.reads_taken[0].size(), test.near_reads) << test.least << " " << test.limit;
  }
}

TEST(InlineSharingTest, DevLoadFollowsWhatIsInFlight) {
  InlinePath path;
  path.ports().control_optimal_i = 4;
  path.ports().control_overload_i = 12;
  path.set_manner({.latency = 1000});
  const auto load = [&path] { return path.ports().load_o[0]; };
  const auto near_reads = [&path](unsigned count) {
    for (unsigned i = 0; i < count; ++i) path.near_read(line_in_slice(0, kNearLine + i), 1);
    path.cycles(40);
  };
  const auto host_reads = [&path](unsigned count) {
    for (unsigned i = 0; i < count; ++i) path.host_read(line_in_slice(0, i));
    path.cycles(40);
  };
  EXPECT_EQ(load(), kLight);
  near_reads(3);
  EXPECT_EQ(load(), kLight);
  near_reads(1);
  EXPECT_EQ(load(), kOptimal);
  near_reads(7);
  EXPECT_EQ(load(), kOptimal);
  near_reads(1);
  EXPECT_EQ(load(), kModerate);
  near_reads(60);  // Near-data alone is not severe.
  EXPECT_EQ(load(), kModerate);
  ASSERT_TRUE(path.drain());
  EXPECT_EQ(load(), kLight);
  host_reads(11);
  EXPECT_EQ(load(), kOptimal);
  path.host_write(line_in_slice(0, 500), {}, kAllBytes);
  path.cycles(5);
  EXPECT_EQ(load(), kSevere);
  ASSERT_TRUE(path.drain());
  EXPECT_EQ(load(), kLight);
}

// It waits for memory, whatever is set, and with the device's own settings, too.
TEST(InlineSharingTest, AHostWithoutCreditsIsASevereOverload) {
  for (const bool writes : {false, true}) {
    InlinePath path;
    path.set_manner({.latency = 1000});
    const auto load = [&path] { return path.ports().load_o[0]; };
    for (unsigned i = 0; i < kHostCredits; ++i) {
      EXPECT_EQ(load(), i < 32 ? kLight : kOptimal) << i;
      if (writes) {
        path.host_write(line_in_slice(0, i), {}, kAllBytes);
      } else {
        path.host_read(line_in_slice(0, i));
      }
      path.cycles(8);
    }
    EXPECT_EQ(load(), kSevere);
    ASSERT_TRUE(path.drain());
    EXPECT_EQ(load(), kLight);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
