// nkv_front's queues: order, what overlaps, and what stopping and resetting leave.
#include <gtest/gtest.h>

#include <algorithm>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

using emulator::MemoryTiming;

constexpr unsigned kLatency = 60;
constexpr MemoryTiming kSlow{.latency_cycles = kLatency, .jitter_cycles = 0, .seed = 1};

Work work(std::uint16_t tag, std::uint32_t cycles = 20) {
  Work work;
  work.tag = tag;
  work.cycles = cycles;
  return work;
}

/// Runs until all that is open has been taken, telling the device of it.
void drain(FrontUnit& unit, unsigned queue, unsigned limit = 20000) {
  for (unsigned i = 0; i < limit && unit.open(queue) != 0; ++i) {
    if (unit.take(queue)) unit.write(NKV_REG_CQ_HEAD(queue), unit.taken(queue));
    unit.cycle();
  }
  EXPECT_EQ(unit.open(queue), 0U);
}

TEST(QueuesTest, CommandsCompleteInOrderOverManyRounds) {
  FrontUnit unit(kSlow);
  unit.enable(3);
  for (std::uint16_t tag = 0; tag < 100; tag += 10) {
    for (std::uint16_t i = 0; i < 10; ++i) unit.submit(3, work(tag + i));
    unit.ring(3);
    drain(unit, 3);
  }
  ASSERT_EQ(unit.started.size(), 100U);
  for (std::uint16_t i = 0; i < 100; ++i) EXPECT_EQ(unit.started[i].work.tag, i);
}

TEST(QueuesTest, ACommandStartsAndCompletesSoon) {
  for (unsigned phase = 0; phase < 20; ++phase) {
    FrontUnit unit(kSlow);
    unit.enable(0);
    unit.cycles(100 + phase);
    unit.submit(0, work(7));
    unit.ring(0);
    const std::uint64_t rung = unit.now();
    unit.cycles(400);
    ASSERT_EQ(unit.started.size(), 1U);
    ASSERT_EQ(unit.written.size(), 1U);
    EXPECT_LE(unit.started[0].at - rung, kLatency + 38);
    EXPECT_LE(unit.written[0].at - unit.ended[0], 4U);
    EXPECT_EQ(unit.written[0].completion.ticks, 22U);
  }
}

TEST(QueuesTest, FetchingAndPostingOverlapWithTheEngine) {
  if (kEngines > 1) GTEST_SKIP() << "what starts when one engine is free again";
  FrontUnit unit(kSlow);
  for (unsigned queue = 0; queue < 4; ++queue) {
    unit.enable(queue);
    for (std::uint16_t i = 0; i < 4; ++i) unit.submit(queue, work(i, 200));
    unit.ring(queue);
  }
  unit.cycles(4000);
  ASSERT_EQ(unit.ended.size(), 16U);
  for (std::size_t i = 1; i < 16; ++i) {
    EXPECT_LE(unit.started[i].at - unit.ended[i - 1], 6U) << i;
  }
  // A queue alone: its next command is there.
  unit.started.clear();
  unit.ended.clear();
  for (std::uint16_t i = 4; i < 8; ++i) unit.submit(2, work(i, 200));
  unit.ring(2);
  unit.cycles(2000);
  ASSERT_EQ(unit.ended.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_LE(unit.started[i].at - unit.ended[i - 1], 6U) << i;
  }
}

Work trailing_work(std::uint16_t tag, std::uint32_t cycles, std::uint32_t trails) {
  Work item = work(tag, cycles);
  item.trails = trails;
  item.results = 5;
  return item;
}

TEST(QueuesTest, AnotherQueueStartsWhileACommandTrailsAndItsOwnDoesNot) {
  if (kEngines > 1) GTEST_SKIP() << "what one engine does meanwhile";
  FrontUnit unit(kSlow);
  for (const unsigned queue : {3U, 8U}) {
    unit.enable(queue);
    for (std::uint16_t i = 0; i < 4; ++i) unit.submit(queue, trailing_work(i, 200, 150));
    unit.ring(queue);
  }
  unit.cycles(4000);
  ASSERT_EQ(unit.started.size(), 8U);
  ASSERT_EQ(unit.ended.size(), 8U);
  for (std::size_t i = 1; i < 8; ++i) {
    ASSERT_NE(unit.started[i].queue, unit.started[i - 1].queue);
    // As soon as the one before trails.
    EXPECT_LE(unit.started[i].at - unit.started[i - 1].at, 200U + 8) << i;
    EXPECT_LT(unit.started[i].at, unit.ended[i - 1]) << i;
  }
  for (unsigned i = 0; i < 4; ++i) EXPECT_TRUE(unit.take(3) && unit.take(8));
  // A queue alone keeps its order.
  unit.started.clear();
  unit.ended.clear();
  for (std::uint16_t i = 4; i < 8; ++i) unit.submit(3, trailing_work(i, 200, 150));
  unit.ring(3);
  unit.cycles(4000);
  ASSERT_EQ(unit.ended.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GT(unit.started[i].at, unit.ended[i - 1]) << i;
}

TEST(QueuesTest, AShortCommandWaitsForTheOutcomeOfTheOneThatTrails) {
  if (kEngines > 1) GTEST_SKIP() << "what one engine does meanwhile";
  FrontUnit unit(kSlow);
  for (const unsigned queue : {0U, 1U, 2U}) unit.enable(queue);
  unit.submit(0, trailing_work(1, 200, 500));
  unit.submit(1, work(2, 20));
  unit.submit(2, trailing_work(3, 30, 10));
  for (const unsigned queue : {0U, 1U, 2U}) unit.ring(queue);
  unit.cycles(2000);
  ASSERT_EQ(unit.written.size(), 3U);
  EXPECT_EQ(unit.started[0].queue, unit.written[0].queue);
  EXPECT_EQ(unit.started[1].queue, unit.written[1].queue);
  for (const unsigned queue : {0U, 1U, 2U}) EXPECT_TRUE(unit.take(queue)) << queue;
}

TEST(QueuesTest, NothingStartsWhileTheEndOfACommandThatTrailedWaits) {
  if (kEngines > 1) GTEST_SKIP() << "what one engine does meanwhile";
  FrontUnit unit(kSlow);
  for (const unsigned queue : {0U, 1U, 2U}) unit.enable(queue);
  unit.submit(0, work(1));
  unit.submit(1, trailing_work(2, 20, 10));
  unit.submit(2, work(3));
  unit.take_writes(false);
  for (const unsigned queue : {0U, 1U, 2U}) {
    unit.ring(queue);
    unit.cycles(200);
  }
  // The first one's completion is held, so that the second one's cannot be made.
  EXPECT_EQ(unit.started.size(), 2U);
  unit.take_writes(true);
  unit.cycles(500);
  for (const unsigned queue : {0U, 1U, 2U}) {
    const auto done = unit.take(queue);
    ASSERT_TRUE(done) << queue;
    EXPECT_EQ(done->status, NKV_STATUS_OK) << queue;
  }
}

TEST(QueuesTest, APoisonedCommandEndsBesideOneThatTrails) {
  for (std::uint32_t trails = 1; trails < 60; ++trails) {
    FrontUnit unit(kSlow);
    unit.enable(0);
    unit.enable(1);
    const std::uint64_t ring =
        FrontUnit::kMemoryBytes / 2 + 2 * FrontUnit::kEntries * NKV_COMMAND_BYTES;
    unit.memory().set_faults({.poisoned = {ring}, .drop_read = 0});
    unit.submit(0, trailing_work(1, 200, trails));
    unit.ring(0);
    unit.cycles(120);
    unit.submit(1, work(2));
    unit.submit(1, work(3));
    unit.ring(1);
    unit.cycles(1500);
    ASSERT_EQ(unit.written.size(), 3U) << trails;
    const auto first = unit.take(0);
    const auto poisoned = unit.take(1);
    const auto last = unit.take(1);
    ASSERT_TRUE(first && poisoned && last) << trails;
    EXPECT_EQ(first->status, NKV_STATUS_OK);
    EXPECT_EQ(poisoned->status, NKV_STATUS_POISON);
    EXPECT_EQ(last->status, NKV_STATUS_OK);
  }
}

TEST(QueuesTest, AStoppedQueueForgetsWhatItFetchedAndLetsTheCommandInFlightEnd) {
  FrontUnit unit(kSlow);
  unit.enable(5);
  unit.submit(5, work(1, 1000));
  unit.submit(5, work(2, 10));
  unit.ring(5);
  unit.cycles(400);
  ASSERT_EQ(unit.fetched.size(), 2U);  // Both are here, and the first runs.
  ASSERT_TRUE(unit.engines_are_busy());
  unit.write(NKV_REG_QUEUE_CONTROL(5), 0);
  unit.cycles(100);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(5)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
  unit.cycles(2000);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(5)), 0U);
  ASSERT_TRUE(unit.take(5));
  EXPECT_FALSE(unit.take(5));
  EXPECT_EQ(unit.started.size(), 1U);
  // Its next life begins at index 0, elsewhere.
  unit.enable(5, 1);
  unit.submit(5, work(3));
  unit.ring(5);
  drain(unit, 5);
  EXPECT_EQ(unit.started.back().work.tag, 3);
}

TEST(QueuesTest, AStoppedQueueRunsUntilItsCommandThatTrailsHasEnded) {
  FrontUnit unit(kSlow);
  unit.enable(5);
  unit.submit(5, trailing_work(1, 100, 900));
  unit.ring(5);
  unit.cycles(400);
  ASSERT_TRUE(unit.ended.empty());
  unit.write(NKV_REG_QUEUE_CONTROL(5), 0);
  unit.cycles(100);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(5)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
  unit.cycles(1000);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(5)), 0U);
  EXPECT_TRUE(unit.take(5));
}

TEST(QueuesTest, AQueueThatIsEnabledAgainBeforeItStoppedStartsAnew) {
  FrontUnit unit(kSlow);
  unit.enable(5);
  unit.submit(5, work(1, 1000));
  unit.submit(5, work(2, 10));
  unit.ring(5);
  unit.cycles(400);
  ASSERT_TRUE(unit.engines_are_busy());
  unit.write(NKV_REG_QUEUE_CONTROL(5), 0);
  unit.enable(5, 1);
  unit.submit(5, work(3));
  unit.ring(5);
  drain(unit, 5);
  ASSERT_EQ(unit.started.size(), 2U);
  EXPECT_EQ(unit.started[1].work.tag, 3);
}

TEST(QueuesTest, StoppingInAnyCycleRunsACommandWholeOrNotAtAll) {
  for (unsigned at = 0; at < 150; ++at) {
    FrontUnit unit(kSlow);
    unit.enable(1);
    unit.submit(1, at % 2 == 0 ? work(9, 30) : trailing_work(9, 20, 15));
    unit.ring(1);
    unit.cycles(at);
    unit.write(NKV_REG_QUEUE_CONTROL(1), 0);
    unit.cycles(300);
    EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(1)), 0U) << at;
    EXPECT_EQ(unit.started.size(), unit.written.size()) << at;
    unit.enable(1, 1);
    unit.submit(1, work(10));
    unit.ring(1);
    drain(unit, 1);
    EXPECT_EQ(unit.started.back().work.tag, 10) << at;
  }
}

TEST(QueuesTest, AResetInAnyCycleForgetsEverything) {
  for (unsigned at = 0; at < 400; at += 3) {
    FrontUnit unit(kSlow);
    for (const unsigned queue : {0U, 9U}) {
      unit.enable(queue);
      unit.submit(queue, at % 2 == 0 ? work(1, 25) : trailing_work(1, 25, 60));
      unit.submit(queue, work(2, 25));
      unit.ring(queue);
    }
    unit.cycles(at);
    unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
    unit.cycle();
    const std::size_t completions = unit.written.size();
    for (const unsigned queue : {0U, 9U}) {
      EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(queue)), 0U) << at;
    }
    // The engine forgets its command too: here it ends unheard.
    const std::size_t before = unit.started.size();
    unit.forget_engines();
    unit.enable(9, 1);
    unit.submit(9, work(5));
    unit.ring(9);
    drain(unit, 9);
    ASSERT_EQ(unit.started.size(), before + 1) << at;
    EXPECT_EQ(unit.started.back().work.tag, 5) << at;
    EXPECT_EQ(unit.written.size(), completions + 1) << at;
  }
}

TEST(QueuesTest, ACommandStartsOnlyWhenItsCompletionHasRoom) {
  FrontUnit unit(kSlow);
  unit.enable(2);
  for (std::uint16_t i = 0; i < 16; ++i) unit.submit(2, work(i));
  unit.ring(2);
  unit.cycles(3000);
  ASSERT_EQ(unit.started.size(), 16U);
  for (unsigned i = 0; i < 16; ++i) ASSERT_TRUE(unit.take(2));
  unit.submit(2, work(16));
  unit.ring(2);
  unit.cycles(500);
  EXPECT_EQ(unit.started.size(), 16U);
  unit.write(NKV_REG_CQ_HEAD(2), 1);
  unit.cycles(500);
  EXPECT_EQ(unit.started.size(), 17U);
  EXPECT_TRUE(unit.take(2));
}

TEST(QueuesTest, ADoorbellBeyondTheRingFetchesNothing) {
  FrontUnit unit(kSlow);
  unit.enable(2);
  unit.write(NKV_REG_SQ_TAIL(2), FrontUnit::kEntries + 1);
  unit.cycles(300);
  EXPECT_TRUE(unit.fetched.empty());
}

TEST(QueuesTest, APoisonedCommandDoesNotRun) {
  FrontUnit unit(kSlow);
  unit.enable(0);
  const std::uint64_t ring = FrontUnit::kMemoryBytes / 2;
  unit.memory().set_faults({.poisoned = {ring + NKV_COMMAND_BYTES}, .drop_read = 0});
  for (std::uint16_t i = 0; i < 3; ++i) unit.submit(0, work(i));
  unit.ring(0);
  unit.cycles(1000);
  ASSERT_EQ(unit.written.size(), 3U);
  EXPECT_EQ(unit.written[0].completion.status, NKV_STATUS_OK);
  EXPECT_EQ(unit.written[1].completion.status, NKV_STATUS_POISON);
  EXPECT_EQ(unit.written[2].completion.status, NKV_STATUS_OK);
  EXPECT_EQ(unit.started.size(), 2U);
}

TEST(QueuesTest, DoorbellsInMemoryRingUnlessAResetComes) {
  FrontUnit unit(kSlow);
  for (const unsigned queue : {4U, 6U, 7U}) {
    unit.enable(queue);
    unit.submit(queue, work(static_cast<std::uint16_t>(queue)));
  }
  Vnkv_front& ports = unit.ports();
  const auto silence = [&ports] {
    for (unsigned slice = 0; slice < 2; ++slice) {
      ports.doorbell_brings_tail_i[slice] = ports.doorbell_brings_head_i[slice] = 0;
    }
  };
  const auto ring = [&ports](unsigned slice, unsigned queue, unsigned tail) {
    ports.doorbell_brings_tail_i[slice] = 1;
    ports.doorbell_index_i[slice] = static_cast<std::uint8_t>(queue);
    ports.doorbell_tail_i[slice] = static_cast<std::uint16_t>(tail);
  };
  const auto bring_head = [&ports](unsigned slice, unsigned queue, unsigned head) {
    ports.doorbell_brings_head_i[slice] = 1;
    ports.doorbell_index_i[slice] = static_cast<std::uint8_t>(queue);
    ports.doorbell_head_i[slice] = static_cast<std::uint16_t>(head);
  };
  // Two at once, a third the next cycle, while the host uses the bus; the later tail counts.
  ring(0, 4, 3);
  ring(1, 6, 1);
  EXPECT_EQ(unit.read(NKV_REG_ID), NKV_ABI_ID);
  ring(0, 4, 1);
  ring(1, 7, 1);
  EXPECT_EQ(unit.read(NKV_REG_ID), NKV_ABI_ID);
  silence();
  // Of queues that stand still: both at once, and a head alone.
  ring(0, 9, 0x8765);
  bring_head(0, 9, 0x1234);
  bring_head(1, 10, 0x4321);
  EXPECT_EQ(unit.read(NKV_REG_ID), NKV_ABI_ID);
  silence();
  EXPECT_EQ(unit.read(NKV_REG_ID), NKV_ABI_ID);
  unit.cycles(500);
  EXPECT_EQ(unit.started.size(), 3U);
  for (const unsigned queue : {4U, 6U, 7U}) {
    EXPECT_EQ(unit.read(NKV_REG_SQ_TAIL(queue)), 1U) << queue;
    EXPECT_EQ(unit.read(NKV_REG_CQ_HEAD(queue)), 0U) << queue;
    EXPECT_TRUE(unit.take(queue)) << queue;
  }
  EXPECT_EQ(unit.read(NKV_REG_SQ_TAIL(9)), 0x8765U);
  EXPECT_EQ(unit.read(NKV_REG_CQ_HEAD(9)), 0x1234U);
  EXPECT_EQ(unit.read(NKV_REG_SQ_TAIL(10)), 0U);
  EXPECT_EQ(unit.read(NKV_REG_CQ_HEAD(10)), 0x4321U);
}

TEST(QueuesTest, ManyQueuesRunEverythingOnceAndInOrder) {
  for (const MemoryTiming timing :
       {MemoryTiming{.latency_cycles = 5, .jitter_cycles = 90, .seed = 3},
        MemoryTiming{.latency_cycles = 1, .jitter_cycles = 0, .seed = 4}, kSlow}) {
    test::Random random = test::case_random(timing.seed);
    FrontUnit unit(timing);
    constexpr unsigned kCommands = 40;
    std::array<unsigned, FrontUnit::kQueues> submitted{};
    for (unsigned queue = 0; queue < FrontUnit::kQueues; ++queue) {
      unit.enable(queue);
      unit.write(NKV_REG_WEIGHT(queue), random() % 16);
    }
    bool is_open = true;
    for (unsigned step = 0; is_open && step < 4000; ++step) {
      const auto queue = static_cast<unsigned>(random() % FrontUnit::kQueues);
      while (submitted.at(queue) < kCommands && unit.open(queue) < FrontUnit::kEntries &&
             random() % 4 != 0) {
        Work item = work(static_cast<std::uint16_t>(submitted.at(queue)++),
                         10 + static_cast<std::uint32_t>(random() % 20));
        item.reads = static_cast<std::uint32_t>(random() % 5);
        if (random() % 3 == 0) item.trails = 1 + static_cast<std::uint32_t>(random() % 60);
        unit.submit(queue, item);
      }
      unit.ring(queue);
      unit.cycles(random() % 30);
      is_open = false;
      for (unsigned i = 0; i < FrontUnit::kQueues; ++i) {
        const unsigned before = unit.taken(i);
        while (const auto completion = unit.take(i)) {
          EXPECT_EQ(completion->status, NKV_STATUS_OK) << "queue " << i << ", " << completion->tag;
        }
        if (unit.taken(i) != before) unit.write(NKV_REG_CQ_HEAD(i), unit.taken(i));
        is_open = is_open || unit.open(i) != 0 || submitted.at(i) < kCommands;
      }
    }
    EXPECT_FALSE(is_open);
    EXPECT_EQ(unit.started.size(), kCommands * FrontUnit::kQueues);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
