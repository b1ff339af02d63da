// What nkv_front tells software: interrupts, totals, the error log; and the inline path's
// registers.
#include <gtest/gtest.h>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr emulator::MemoryTiming kSlow{.latency_cycles = 60, .jitter_cycles = 0, .seed = 1};

constexpr unsigned line_of(unsigned queue) {
  return 1U << (NKV_REG_INTERRUPT_STATUS_QUEUES_SHIFT + queue);
}

/// Commands that the host runs one after the other.
void run(FrontUnit& unit, unsigned queue, const Work& work) {
  unit.submit(queue, work);
  unit.ring(queue);
  for (unsigned i = 0; i < 5000 && unit.open(queue) != 0; ++i) {
    unit.cycle();
    if (unit.take(queue)) unit.write(NKV_REG_CQ_HEAD(queue), unit.taken(queue));
  }
  ASSERT_EQ(unit.open(queue), 0U);
}

TEST(InterruptsTest, ComeAtOnceAndStayUntilTheyAreCleared) {
  FrontUnit unit(kSlow);
  unit.enable(4);
  EXPECT_EQ(unit.interrupts(), 0U);
  run(unit, 4, {});
  EXPECT_EQ(unit.interrupts(), line_of(4));
  unit.cycles(100);
  EXPECT_EQ(unit.read(NKV_REG_INTERRUPT_STATUS), line_of(4));
  unit.write(NKV_REG_INTERRUPT_STATUS, line_of(5));
  EXPECT_EQ(unit.interrupts(), line_of(4));
  unit.write(NKV_REG_INTERRUPT_STATUS, line_of(4));
  EXPECT_EQ(unit.interrupts(), 0U);
  run(unit, 4, {});
  EXPECT_EQ(unit.interrupts(), line_of(4));
  unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  unit.cycle();
  EXPECT_EQ(unit.interrupts(), 0U);
}

TEST(InterruptsTest, AMaskHidesTheLineAndNotTheStatus) {
  FrontUnit unit(kSlow);
  unit.enable(0);
  unit.write(NKV_REG_INTERRUPT_MASK, line_of(0));
  run(unit, 0, {});
  EXPECT_EQ(unit.interrupts(), 0U);
  EXPECT_EQ(unit.read(NKV_REG_INTERRUPT_STATUS), line_of(0));
  unit.write(NKV_REG_INTERRUPT_MASK, 0);
  EXPECT_EQ(unit.interrupts(), line_of(0));
}

TEST(InterruptsTest, ComeForSoManyCompletions) {
  FrontUnit unit(kSlow);
  unit.enable(1);
  unit.write(NKV_REG_COALESCE(1),
             3U | std::uint64_t{1'000'000} << NKV_REG_COALESCE_WAIT_TICKS_SHIFT);
  for (unsigned round = 0; round < 3; ++round) {
    run(unit, 1, {});
    run(unit, 1, {});
    unit.cycles(50);
    EXPECT_EQ(unit.interrupts(), 0U);
    run(unit, 1, {});
    EXPECT_EQ(unit.interrupts(), line_of(1));
    unit.write(NKV_REG_INTERRUPT_STATUS, line_of(1));
  }
}

TEST(InterruptsTest, ComeWhenTheOldestCompletionHasWaited) {
  FrontUnit unit(kSlow);
  unit.enable(1);
  constexpr unsigned kTicks = 700;
  unit.write(NKV_REG_COALESCE(1),
             100U | std::uint64_t{kTicks} << NKV_REG_COALESCE_WAIT_TICKS_SHIFT);
  for (unsigned round = 0; round < 5; ++round) {
    run(unit, 1, {});
    const std::uint64_t posted = unit.now();
    unit.cycles(200 + round);
    run(unit, 1, {});
    while (unit.interrupts() == 0 && unit.now() < posted + 2000) unit.cycle();
    // run() returns a few cycles after the completion is in memory.
    EXPECT_GE(unit.now() - posted, kTicks - 10);
    EXPECT_LE(unit.now() - posted, kTicks + 16);
    unit.write(NKV_REG_INTERRUPT_STATUS, line_of(1));
    unit.cycles(2000);
    EXPECT_EQ(unit.interrupts(), 0U);
  }
}

// The host clears in any cycle around that of the completion: if it clears too early, the line is
// high once the completion is there.
TEST(InterruptsTest, NoneIsLostHoweverTheHostClears) {
  unsigned high = 0;
  unsigned low = 0;
  for (unsigned at = 0; at < 40; ++at) {
    FrontUnit unit(kSlow);
    unit.enable(2);
    run(unit, 2, {});
    unit.submit(2, {});
    unit.ring(2);
    unit.cycles(150 + at);
    const bool is_there = unit.take(2).has_value();
    unit.write(NKV_REG_INTERRUPT_STATUS, line_of(2));
    unit.cycles(200);
    if (is_there) continue;
    // It came in the cycle of the write, or later.
    EXPECT_EQ(unit.interrupts(), line_of(2)) << at;
    ++(unit.interrupts() != 0 ? high : low);
  }
  EXPECT_GT(high, 0U);
  EXPECT_LT(high, 40U);
  EXPECT_EQ(low, 0U);
}

TEST(InterruptsTest, OthersHaveTheirOwnLines) {
  FrontUnit unit(kSlow);
  unit.ports().hotness_i = 2;
  unit.cycle();
  unit.ports().hotness_i = 0;
  EXPECT_EQ(unit.interrupts(), NKV_REG_INTERRUPT_STATUS_NEAR_HOTNESS_MASK);
  unit.ports().hotness_i = 1;
  unit.cycle();
  unit.ports().hotness_i = 0;
  EXPECT_EQ(unit.interrupts(), NKV_REG_INTERRUPT_STATUS_NEAR_HOTNESS_MASK |
                                   NKV_REG_INTERRUPT_STATUS_HOST_HOTNESS_MASK);
}

TEST(TotalsTest, AreSumsOverTheCommandsOfAQueue) {
  FrontUnit unit(kSlow);
  unit.enable(3);
  unit.enable(15);
  Work reads;
  reads.reads = 20;
  reads.cycles = 100;
  reads.refused = 7;
  reads.late = 30;
  Work writes;
  writes.writes = 9;
  writes.cycles = 50;
  writes.refused = 5;
  for (unsigned i = 0; i < 3; ++i) run(unit, 3, reads);
  run(unit, 3, writes);
  run(unit, 15, writes);
  unit.cycles(50);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_COMMANDS(3)), 4U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_STREAM_BURSTS(3)), 60U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_REFINE_BURSTS(3)), 4U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_EXACT_BURSTS(3)), 8U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_VALUE_BURSTS(3)), 12U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITTEN_BURSTS(3)), 9U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_BUSY_TICKS(3)), 3U * 102 + 52);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_READ_REFUSED_TICKS(3)), 21U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITE_REFUSED_TICKS(3)), 5U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_MEMORY_WAIT_TICKS(3)), 3U * 30);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_COMMANDS(15)), 1U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITTEN_BURSTS(15)), 9U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_COMMANDS(4)), 0U);

  // Of two commands at once, the results are the first one's.
  Work trails = reads;
  trails.trails = 60;
  trails.results = 11;
  for (const unsigned queue : {3U, 15U}) unit.submit(queue, queue == 3 ? trails : reads);
  for (const unsigned queue : {3U, 15U}) unit.ring(queue);
  unit.cycles(600);
  for (const unsigned queue : {3U, 15U}) ASSERT_TRUE(unit.take(queue));
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_STREAM_BURSTS(3)), 80U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITTEN_BURSTS(3)), 20U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_BUSY_TICKS(3)), 3U * 102 + 52 + 162);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_MEMORY_WAIT_TICKS(3)), 4U * 30);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_STREAM_BURSTS(15)), 20U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITTEN_BURSTS(15)), 9U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_BUSY_TICKS(15)), 52U + 102);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_READ_REFUSED_TICKS(15)), 7U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_WRITE_REFUSED_TICKS(15)), 5U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_MEMORY_WAIT_TICKS(15)), 30U);

  unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  unit.cycle();
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_COMMANDS(15)), 0U);
  unit.enable(3, 1);
  run(unit, 3, writes);
  unit.cycles(50);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_COMMANDS(3)), 1U);
  EXPECT_EQ(unit.read(NKV_REG_TOTAL_STREAM_BURSTS(3)), 0U);
}

struct Entry {
  std::uint64_t tag, tenant, queue, opcode, status;
  bool operator==(const Entry&) const = default;
};

Entry entry_at(FrontUnit& unit, unsigned index) {
  const std::uint64_t word = unit.read(NKV_REG_ERROR_ENTRY(index % NKV_ERROR_ENTRIES));
  return {.tag = (word & NKV_REG_ERROR_ENTRY_TAG_MASK) >> NKV_REG_ERROR_ENTRY_TAG_SHIFT,
          .tenant = (word & NKV_REG_ERROR_ENTRY_TENANT_MASK) >> NKV_REG_ERROR_ENTRY_TENANT_SHIFT,
          .queue = (word & NKV_REG_ERROR_ENTRY_QUEUE_INDEX_MASK) >>
                   NKV_REG_ERROR_ENTRY_QUEUE_INDEX_SHIFT,
          .opcode = (word & NKV_REG_ERROR_ENTRY_OPCODE_MASK) >> NKV_REG_ERROR_ENTRY_OPCODE_SHIFT,
          .status = (word & NKV_REG_ERROR_ENTRY_STATUS_MASK) >> NKV_REG_ERROR_ENTRY_STATUS_SHIFT};
}

TEST(ErrorLogTest, KeepsTheLastFailedCommandsAndCountsTheLost) {
  FrontUnit unit(kSlow);
  unit.enable(6);
  const auto state = [&unit] { return unit.read(NKV_REG_ERROR_STATE); };
  const auto lost = [&] { return state() >> NKV_REG_ERROR_STATE_LOST_SHIFT; };
  const auto tail = [&] { return state() & NKV_REG_ERROR_STATE_TAIL_MASK; };
  Work bad;
  bad.status = NKV_STATUS_STALE_PAGE;
  for (std::uint16_t i = 0; i < 20; ++i) {
    run(unit, 6, {});
    bad.tag = i;
    bad.opcode = static_cast<std::uint8_t>(NKV_OPCODE_TOPK + i % 2);
    run(unit, 6, bad);
    EXPECT_EQ(tail(), i + 1U);
    EXPECT_EQ(lost(), i < 16 ? 0U : i - 15U);
  }
  EXPECT_NE(unit.interrupts() & NKV_REG_INTERRUPT_STATUS_ERRORS_MASK, 0U);
  for (unsigned i = 4; i < 20; ++i) {
    EXPECT_EQ(entry_at(unit, i), (Entry{.tag = i,
                                        .tenant = 106,
                                        .queue = 6,
                                        .opcode = NKV_OPCODE_TOPK + i % 2,
                                        .status = NKV_STATUS_STALE_PAGE}))
        << i;
    EXPECT_EQ(unit.read(NKV_REG_ERROR_DETAIL(i % NKV_ERROR_ENTRIES)), 1000U + i);
  }
  unit.write(NKV_REG_ERROR_HEAD, 20);
  for (unsigned i = 0; i < 16; ++i) run(unit, 6, bad);
  EXPECT_EQ(lost(), 4U);
  run(unit, 6, bad);
  EXPECT_EQ(lost(), 5U);
  unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  unit.cycle();
  EXPECT_EQ(state(), 0U);
}

TEST(InlineRegistersTest, AreTheDevicesOwnUntilSoftwareSetsThem) {
  FrontUnit unit(kSlow);
  Vnkv_front& ports = unit.ports();
  const auto expect_own = [&ports] {
    EXPECT_EQ(ports.inline_share_o, 4);
    EXPECT_EQ(ports.inline_age_cycles_o, 64);
    EXPECT_EQ(ports.inline_near_least_o, 16);
    EXPECT_EQ(ports.inline_read_limit_o, 72);
    EXPECT_EQ(ports.inline_write_limit_o, 72);
    EXPECT_EQ(ports.inline_optimal_o, 32);
    EXPECT_EQ(ports.inline_overload_o, 96);
  };
  expect_own();
  unit.write(NKV_REG_INLINE_LIMITS, 0x0005'0400'0003);
  unit.write(NKV_REG_INLINE_LOAD, 0xFFFF'0007);
  expect_own();
  unit.write(NKV_REG_INLINE_CONTROL, 1U | 9U << 1 | 1000U << 5);
  EXPECT_EQ(ports.inline_share_o, 9);
  EXPECT_EQ(ports.inline_age_cycles_o, 1000);
  EXPECT_EQ(ports.inline_near_least_o, 3);
  EXPECT_EQ(ports.inline_read_limit_o, 1023);
  EXPECT_EQ(ports.inline_write_limit_o, 5);
  EXPECT_EQ(ports.inline_optimal_o, 7);
  EXPECT_EQ(ports.inline_overload_o, 1023);
  unit.write(NKV_REG_INLINE_CONTROL, 0);
  expect_own();
  unit.write(NKV_REG_DOORBELL_BASE, 0x12'3456'7880);
  unit.write(NKV_REG_DOORBELL_ENABLE, 0x8001);
  EXPECT_EQ(ports.doorbells_base_o, 0x12'3456'7880U);
  EXPECT_EQ(ports.doorbells_enable_o, 0x8001);
}

}  // namespace
}  // namespace nearkv::rtl_test
