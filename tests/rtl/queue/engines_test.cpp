// nkv_front with several engines: all work at once, a queue has one of them at the most, shares are
// by weight among those that wait, and an engine that stops leaves the others at work.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr emulator::MemoryTiming kSlow{.latency_cycles = 60, .jitter_cycles = 0, .seed = 1};

Work work_of(std::uint32_t reads, std::uint32_t cycles = 0) {
  Work work;
  work.reads = reads;
  work.cycles = std::max(cycles, reads + 110);  // Longer than the next one's fetch.
  return work;
}

/// Takes what has come, and keeps so many commands in the ring.
void keep_full(FrontUnit& unit, unsigned queue, const Work& work, unsigned commands = 8) {
  const unsigned taken = unit.taken(queue);
  while (unit.take(queue)) {
  }
  if (unit.taken(queue) != taken) unit.write(NKV_REG_CQ_HEAD(queue), unit.taken(queue));
  if (unit.open(queue) >= commands) return;
  while (unit.open(queue) < commands) unit.submit(queue, work);
  unit.ring(queue);
}

TEST(EnginesTest, WorkAtOnceForDifferentQueues) {
  FrontUnit unit(kSlow);
  for (unsigned queue = 0; queue < kEngines; ++queue) {
    unit.enable(queue);
    unit.submit(queue, work_of(10, 2000));
    unit.ring(queue);
  }
  unit.cycles(60 + 38 + kEngines * 40);
  ASSERT_EQ(unit.started.size(), kEngines);
  std::set<unsigned> engines;
  for (const Started& start : unit.started) engines.insert(start.engine);
  EXPECT_EQ(engines.size(), kEngines);
  EXPECT_TRUE(unit.ended.empty());
}

TEST(EnginesTest, AQueueAloneHasOneAtATimeAndKeepsItsOrder) {
  FrontUnit unit(kSlow);
  unit.enable(6);
  for (std::uint16_t tag = 0; tag < 10; ++tag) {
    Work work = work_of(4);
    work.tag = tag;
    unit.submit(6, work);
  }
  unit.ring(6);
  while (unit.open(6) != 0) {
    unit.cycle();
    unit.take(6);
  }
  ASSERT_EQ(unit.started.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(unit.started[i].work.tag, i);
    if (i > 0) {
      EXPECT_GT(unit.started[i].at, unit.ended[i - 1]);
    }
  }
}

// What each command did at its own engine's port, and when, whatever the others do.
TEST(EnginesTest, CountersKeepQueuesApart) {
  FrontUnit unit(kSlow);
  for (unsigned queue = 0; queue < kEngines; ++queue) {
    unit.enable(queue);
    Work work = work_of(50 * (queue + 1), 400 + 100 * queue);
    work.writes = 3 + queue;
    work.refused = 7 * queue;
    unit.submit(queue, work);
    unit.ring(queue);
  }
  unit.cycles(2000);
  for (unsigned queue = 0; queue < kEngines; ++queue) {
    EXPECT_EQ(unit.read(NKV_REG_TOTAL_COMMANDS(queue)), 1U);
    EXPECT_EQ(unit.read(NKV_REG_TOTAL_STREAM_BURSTS(queue)), 50 * (queue + 1));
    EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITTEN_BURSTS(queue)), 3 + queue);
    EXPECT_EQ(unit.read(NKV_REG_TOTAL_BUSY_TICKS(queue)), 402 + 100 * queue);
    EXPECT_EQ(unit.read(NKV_REG_TOTAL_READ_REFUSED_TICKS(queue)), 7 * queue);
  }
}

// Of queues that always wait, as nobody could use a whole engine for its share.
TEST(EnginesTest, SharesAreByWeightAmongThoseThatWait) {
  struct Share {
    unsigned weight;
    std::uint32_t reads;
  };
  const std::array<Share, 8> shares{
      {{2, 100}, {3, 100}, {2, 40}, {3, 60}, {2, 200}, {3, 150}, {2, 100}, {3, 80}}};
  FrontUnit unit(kSlow);
  for (unsigned queue = 0; queue < shares.size(); ++queue) {
    unit.enable(queue);
    unit.write(NKV_REG_WEIGHT(queue), shares.at(queue).weight);
  }
  std::array<double, shares.size()> served{};
  std::size_t seen = 0;
  while (unit.started.size() < 600) {
    for (unsigned queue = 0; queue < shares.size(); ++queue) {
      keep_full(unit, queue, work_of(shares.at(queue).reads));
    }
    unit.cycles(20);
    for (; seen < unit.started.size(); ++seen) {
      const Started& start = unit.started.at(seen);
      // Until all have started, they only come to wait.
      served.at(start.queue) += (start.work.reads + 2.0) / shares.at(start.queue).weight;
    }
    if (unit.started.size() < 50) served = {};
    for (unsigned a = 0; a < shares.size(); ++a) {
      for (unsigned b = 0; b < shares.size(); ++b) {
        const double bound = (shares.at(a).reads + 2.0) / shares.at(a).weight +
                             (shares.at(b).reads + 2.0) / shares.at(b).weight;
        ASSERT_LE(served.at(a) - served.at(b), (kEngines + 1) * bound) << a << " " << b;
      }
    }
  }
}

TEST(EnginesTest, ASmallCommandWaitsForAnEngineAndAtMostOneOfEachOther) {
  constexpr unsigned kLarge = 6;
  constexpr unsigned kSmall = 12;
  FrontUnit unit(kSlow);
  unit.enable(kSmall);
  for (unsigned queue = 0; queue < kLarge; ++queue) {
    unit.enable(queue);
    unit.write(NKV_REG_WEIGHT(queue), 15);
  }
  const auto load = [&unit] {
    for (unsigned queue = 0; queue < kLarge; ++queue) keep_full(unit, queue, work_of(900));
    unit.cycle();
  };
  test::Random random = test::case_random(7);
  for (unsigned turn = 0; turn < 20; ++turn) {
    for (std::uint64_t pause = 2000 + random() % 3000; pause > 0; --pause) load();
    unit.submit(kSmall, work_of(4));
    unit.ring(kSmall);
    for (unsigned i = 0; i < 100; ++i) unit.cycle();
    const std::size_t first = unit.started.size();
    while (unit.open(kSmall) != 0) {
      load();
      if (unit.take(kSmall)) unit.write(NKV_REG_CQ_HEAD(kSmall), unit.taken(kSmall));
    }
    std::array<unsigned, kLarge> others{};
    for (std::size_t i = first; i < unit.started.size(); ++i) {
      const unsigned queue = unit.started.at(i).queue;
      if (queue == kSmall) break;
      EXPECT_EQ(++others.at(queue), 1U);
    }
  }
}

TEST(EnginesTest, OneThatStopsLeavesTheOthersAtWork) {
  FrontUnit unit(kSlow);
  for (unsigned queue = 0; queue < 6; ++queue) unit.enable(queue);
  const auto run = [&unit](unsigned cycles) {
    for (unsigned i = 0; i < cycles; ++i) {
      for (unsigned queue = 0; queue < 6; ++queue) keep_full(unit, queue, work_of(20));
      unit.cycle();
    }
  };
  run(2000);
  for (unsigned engine = 0; engine < kEngines; ++engine) {
    EXPECT_EQ(
        unit.read(NKV_REG_DEVICE_STATUS),
        NKV_REG_DEVICE_STATUS_READY_MASK | (engine > 0 ? NKV_REG_DEVICE_STATUS_FATAL_MASK : 0));
    while (!unit.engine_is_busy(engine)) unit.cycle();
    unit.stop_engine(engine);
    unit.cycles(2);
    const std::size_t before = unit.started.size();
    run(3000);
    // All queues go on, on those that are left.
    std::set<unsigned> queues;
    for (std::size_t i = before; i < unit.started.size(); ++i) {
      EXPECT_GT(unit.started.at(i).engine, engine);
      queues.insert(unit.started.at(i).queue);
    }
    EXPECT_EQ(queues.size(), engine + 1 < kEngines ? 6U : 0U);
  }
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_FATAL_MASK);
  const auto failed = std::ranges::count_if(
      unit.written, [](const Written& row) { return row.completion.status != NKV_STATUS_OK; });
  EXPECT_EQ(failed, kEngines);
  // Queues stop for all that: nothing of theirs is in flight.
  for (unsigned queue = 0; queue < 6; ++queue) {
    unit.write(NKV_REG_QUEUE_CONTROL(queue), 0);
    unit.cycles(40);
    EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(queue)), 0U);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
