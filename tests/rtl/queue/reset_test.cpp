// CONTROL.RESET lasts until memory has answered all that was asked of it before, or is known not
// to.
#include <gtest/gtest.h>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kAnswerCycles = 1024;  // As nkv_front_bench has it.

void start_reset(FrontUnit& unit) {
  unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  unit.forget_engines();
}

/// Cycles until the device is ready; it takes up no queue before.
unsigned cycles_of_reset(FrontUnit& unit) {
  for (unsigned cycles = 0; cycles < 10 * kAnswerCycles; cycles += 2) {
    if (unit.read(NKV_REG_DEVICE_STATUS) == NKV_REG_DEVICE_STATUS_READY_MASK) return cycles;
    EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(5)), 0U);
  }
  ADD_FAILURE() << "does not end";
  return 0;
}

void expect_to_work(FrontUnit& unit, unsigned queue) {
  unit.enable(queue);
  unit.submit(queue, {.tag = 9});
  unit.ring(queue);
  unit.cycles(2 * kAnswerCycles);
  EXPECT_TRUE(unit.take(queue));
}

TEST(ResetTest, IsOverInTwoCyclesWhenNothingIsInFlight) {
  FrontUnit unit({.latency_cycles = 60});
  unit.cycles(200);
  start_reset(unit);
  unit.cycles(2);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  expect_to_work(unit, 6);
}

// It would land on what the host has put there since.
TEST(ResetTest, WaitsForACompletionOnItsWay) {
  constexpr unsigned kLatency = 300;
  for (unsigned reset_at = 0; reset_at < kLatency; reset_at += 23) {
    FrontUnit unit({.latency_cycles = kLatency});
    unit.enable(3);
    unit.submit(3, {});
    unit.ring(3);
    while (unit.written.empty()) unit.cycle();
    unit.cycles(reset_at);
    start_reset(unit);
    unit.enable(5);
    cycles_of_reset(unit);
    EXPECT_GE(unit.now(), unit.written[0].at + kLatency);
    EXPECT_LE(unit.now(), unit.written[0].at + kLatency + 20);
    EXPECT_EQ(unit.interrupts(), 0U);
    unit.cycles(FrontUnit::kQueues + 2);
    EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(5)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
    expect_to_work(unit, 6);
  }
}

TEST(ResetTest, WaitsForACommandThatIsBeingFetched) {
  constexpr unsigned kLatency = 300;
  for (unsigned reset_at = 0; reset_at < kLatency; reset_at += 23) {
    FrontUnit unit({.latency_cycles = kLatency});
    unit.enable(3);
    unit.submit(3, {});
    unit.ring(3);
    while (unit.fetched.empty()) unit.cycle();
    unit.cycles(reset_at);
    start_reset(unit);
    unit.enable(5);
    cycles_of_reset(unit);
    EXPECT_GE(unit.now(), unit.fetched[0] + kLatency);
    EXPECT_LE(unit.now(), unit.fetched[0] + kLatency + 20);
    EXPECT_TRUE(unit.started.empty());
    expect_to_work(unit, 6);
  }
}

TEST(ResetTest, WaitsForWhatTheEnginesHaveInFlight) {
  FrontUnit unit({.latency_cycles = 60});
  unit.keep_engines_quiet(false);
  start_reset(unit);
  for (unsigned i = 0; i < kAnswerCycles / 2; ++i) {
    unit.cycle();
    ASSERT_NE(unit.ports().reset_o, 0);
    ASSERT_EQ(unit.ports().forfeit_o, 0);
  }
  unit.keep_engines_quiet(true);
  unit.cycles(2);
  EXPECT_EQ(unit.ports().reset_o, 0);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
}

TEST(ResetTest, GivesUpWhatMemoryDoesNotAnswerAndTellsSoOnce) {
  FrontUnit unit({.latency_cycles = 60});
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 0, .drop_write = 1, .drop_writes = 1, .refuse_write = 0});
  unit.enable(3);
  unit.submit(3, {});
  unit.ring(3);
  while (unit.written.empty()) unit.cycle();
  start_reset(unit);
  unsigned forfeits = 0, lasts = 0;
  for (unsigned i = 0; i < 2 * kAnswerCycles; ++i) {
    unit.cycle();
    forfeits += unit.ports().forfeit_o;
    lasts += unit.ports().reset_o;
  }
  EXPECT_EQ(forfeits, 1U);
  EXPECT_GE(lasts, kAnswerCycles - 2);
  EXPECT_LE(lasts, kAnswerCycles);
  expect_to_work(unit, 6);
}

TEST(ResetTest, BeginsAnewWhereItIsAskedForAgain) {
  FrontUnit unit({.latency_cycles = 60});
  unit.keep_engines_quiet(false);
  for (unsigned round = 0; round < 4; ++round) {
    start_reset(unit);
    for (unsigned i = 0; i < kAnswerCycles - 10; ++i) {
      unit.cycle();
      ASSERT_EQ(unit.ports().forfeit_o, 0);
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
