// What nkv_front does when memory does not answer its own reads and writes of the rings, whose
// answers nkv_front_bench waits 1,024 to 2,048 cycles for.
#include <gtest/gtest.h>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kPatience = 2 * 1024 + 100;
constexpr emulator::MemoryTiming kUsual{.latency_cycles = 60, .jitter_cycles = 0, .seed = 1};

TEST(LostAnswersTest, ACommandThatMemoryDoesNotGiveEndsAndTheNextOneRuns) {
  FrontUnit unit(kUsual);
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 2, .drop_write = 0, .drop_writes = 1, .refuse_write = 0});
  unit.enable(3);
  for (const std::uint16_t tag : std::initializer_list<std::uint16_t>{7, 0, 9}) {
    unit.submit(3, {.tag = tag});
  }
  unit.ring(3);
  unit.cycles(500);
  EXPECT_TRUE(unit.take(3));
  EXPECT_FALSE(unit.take(3));
  unit.cycles(kPatience);
  const auto lost = unit.take(3);
  const auto next = unit.take(3);
  ASSERT_TRUE(lost && next);
  EXPECT_EQ(lost->status, NKV_STATUS_INTERNAL);
  EXPECT_EQ(next->status, NKV_STATUS_OK);
  EXPECT_EQ(unit.started.size(), 2U);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
}

TEST(LostAnswersTest, OtherQueuesGoOnMeanwhile) {
  FrontUnit unit(kUsual);
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 1, .drop_write = 0, .drop_writes = 1, .refuse_write = 0});
  unit.enable(3);
  unit.submit(3, {});
  unit.ring(3);
  unit.cycles(50);
  unit.enable(4);
  for (std::uint16_t tag = 0; tag < 5; ++tag) unit.submit(4, {.tag = tag});
  unit.ring(4);
  unit.cycles(900);
  for (unsigned i = 0; i < 5; ++i) EXPECT_TRUE(unit.take(4)) << i;
  EXPECT_FALSE(unit.take(3));
  unit.cycles(kPatience);
  EXPECT_TRUE(unit.take(3));
}

TEST(LostAnswersTest, ACommandThatComesTooLateIsNotTakenForTheNext) {
  // Each comes while its successor is waited for.
  FrontUnit unit({.latency_cycles = 2500, .jitter_cycles = 0, .seed = 1});
  unit.enable(3);
  for (unsigned i = 0; i < 10; ++i) unit.submit(3, {});
  unit.ring(3);
  unit.cycles(10 * kPatience + 3000);
  for (unsigned i = 0; i < 10; ++i) {
    const auto done = unit.take(3);
    ASSERT_TRUE(done) << i;
    EXPECT_EQ(done->status, NKV_STATUS_INTERNAL) << i;
  }
  EXPECT_TRUE(unit.started.empty());
}

TEST(LostAnswersTest, AStoppedQueueDoesNotWaitForeverForACommand) {
  FrontUnit unit(kUsual);
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 1, .drop_write = 0, .drop_writes = 1, .refuse_write = 0});
  unit.enable(3);
  unit.submit(3, {});
  unit.ring(3);
  unit.cycles(100);
  unit.write(NKV_REG_QUEUE_CONTROL(3), 0);
  unit.cycles(500);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(3)), NKV_REG_QUEUE_STATUS_RUNNING_MASK);
  unit.cycles(kPatience);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(3)), 0U);
}

TEST(LostAnswersTest, ACompletionThatMemoryDoesNotConfirmStopsTheDeviceUntilAReset) {
  FrontUnit unit(kUsual);
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 0, .drop_write = 1, .drop_writes = 1, .refuse_write = 0});
  unit.enable(3);
  unit.enable(4);
  unit.submit(3, {});
  unit.ring(3);
  unit.cycles(500);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  // What other queues are told does not count for this one.
  for (unsigned round = 0; round < 9; ++round) {
    unit.submit(4, {});
    unit.ring(4);
    unit.cycles(kPatience / 8);
    EXPECT_TRUE(unit.take(4)) << round;
  }
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_FATAL_MASK);
  unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  unit.cycles(kPatience);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
}

TEST(LostAnswersTest, ACompletionThatMemoryRefusesIsNotAnnouncedAndStopsTheDevice) {
  FrontUnit unit(kUsual);
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 0, .drop_write = 0, .drop_writes = 1, .refuse_write = 2});
  unit.enable(3);
  unit.write(NKV_REG_COALESCE(3), 1U << NKV_REG_COALESCE_COMPLETIONS_SHIFT);
  unit.submit(3, {});
  unit.ring(3);
  unit.cycles(500);
  const unsigned announced = unit.interrupts();
  EXPECT_NE(announced, 0U);
  unit.write(NKV_REG_INTERRUPT_STATUS, announced);
  EXPECT_TRUE(unit.take(3));
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  unit.submit(3, {});
  unit.ring(3);
  unit.cycles(500);
  EXPECT_FALSE(unit.take(3));
  EXPECT_EQ(unit.interrupts(), 0U);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_FATAL_MASK);
  unit.write(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  unit.cycles(kPatience);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
}

}  // namespace
}  // namespace nearkv::rtl_test
