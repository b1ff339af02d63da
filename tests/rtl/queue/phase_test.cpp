// What nkv_front does with a doorbell that comes before the command it tells of: it waits for the
// slot to have the ring's phase, 1,024 to 2,048 cycles.
#include <gtest/gtest.h>

#include "front_unit.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kPatience = 2 * 1024 + 100;
constexpr unsigned kRead = 200;  ///< A slot is read once more within so many cycles.
constexpr emulator::MemoryTiming kUsual{.latency_cycles = 60, .jitter_cycles = 0, .seed = 1};

/// A doorbell for one command more than were submitted.
void ring_ahead(FrontUnit* unit, unsigned queue, unsigned submitted) {
  unit->write(NKV_REG_SQ_TAIL(queue), submitted + 1);
}

TEST(PhaseTest, ACommandThatComesBehindItsDoorbellRunsOnce) {
  FrontUnit unit(kUsual);
  unit.enable(3);
  ring_ahead(&unit, 3, 0);
  unit.cycles(700);
  EXPECT_TRUE(unit.started.empty());
  unit.submit(3, {.tag = 7});
  unit.cycles(kRead + 100);
  const auto done = unit.take(3);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, NKV_STATUS_OK);
  unit.cycles(kPatience);
  EXPECT_EQ(unit.started.size(), 1U);
  EXPECT_FALSE(unit.take(3));
}

TEST(PhaseTest, ASlotOfTheRoundBeforeIsNotRunAgain) {
  FrontUnit unit(kUsual);
  unit.enable(3);
  for (unsigned round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    for (unsigned i = 0; i < FrontUnit::kEntries; ++i) unit.submit(3, {.tag = 1});
    unit.ring(3);
    unit.cycles(4000);
    for (unsigned i = 0; i < FrontUnit::kEntries; ++i) ASSERT_TRUE(unit.take(3)) << i;
    unit.write(NKV_REG_CQ_HEAD(3), unit.taken(3));
    ring_ahead(&unit, 3, unit.taken(3));
    unit.cycles(700);
    EXPECT_EQ(unit.started.size(), unit.taken(3));
  }
}

TEST(PhaseTest, ACommandThatIsNotWrittenEndsAndTheNextOneRuns) {
  FrontUnit unit(kUsual);
  unit.enable(3);
  unit.skip(3);
  unit.submit(3, {.tag = 9});
  unit.ring(3);
  unit.cycles(1000);
  EXPECT_FALSE(unit.take(3));
  unit.cycles(kPatience - 800);
  const auto missing = unit.take(3);
  const auto next = unit.take(3);
  ASSERT_TRUE(missing && next);
  EXPECT_EQ(missing->status, NKV_STATUS_NOT_WRITTEN);
  EXPECT_EQ(next->status, NKV_STATUS_OK);
  EXPECT_EQ(unit.started.size(), 1U);
  EXPECT_EQ(unit.read(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
}

// At whatever moment of reading it the time is over.
TEST(PhaseTest, ACommandThatIsWrittenTooLateIsNotTakenForTheNext) {
  for (unsigned offset = 0; offset < 80; ++offset) {
    SCOPED_TRACE(offset);
    FrontUnit unit(kUsual);
    unit.enable(3);
    unit.cycles(offset);
    unit.skip(3);
    unit.submit(3, {.tag = 9});
    unit.ring(3);
    for (unsigned i = 0; i < kPatience && unit.written.empty(); ++i) unit.cycle();
    unit.write_slot(3, 0, {.tag = 5});
    unit.cycles(kRead + 100);
    const auto missing = unit.take(3);
    const auto next = unit.take(3);
    ASSERT_TRUE(missing && next);
    EXPECT_EQ(missing->status, NKV_STATUS_NOT_WRITTEN);
    EXPECT_EQ(next->status, NKV_STATUS_OK);
    ASSERT_EQ(unit.started.size(), 1U);
    EXPECT_EQ(unit.started.front().work.tag, 9U);
  }
}

TEST(PhaseTest, OtherQueuesGoOnMeanwhile) {
  FrontUnit unit(kUsual);
  unit.enable(3);
  unit.enable(4);
  unit.skip(3);
  unit.ring(3);
  for (std::uint16_t tag = 0; tag < 5; ++tag) unit.submit(4, {.tag = tag});
  unit.ring(4);
  unit.cycles(900);
  for (unsigned i = 0; i < 5; ++i) EXPECT_TRUE(unit.take(4)) << i;
  EXPECT_FALSE(unit.take(3));
}

TEST(PhaseTest, ADoorbellThatIsTakenBackIsForgotten) {
  FrontUnit unit(kUsual);
  unit.enable(3);
  ring_ahead(&unit, 3, 0);
  unit.cycles(500);
  unit.write(NKV_REG_SQ_TAIL(3), 0);
  unit.cycles(2 * kPatience);
  EXPECT_TRUE(unit.written.empty());
  ring_ahead(&unit, 3, 0);
  unit.cycles(900);
  EXPECT_TRUE(unit.written.empty());  // Its time begins anew.
  unit.submit(3, {.tag = 7});
  unit.cycles(kRead + 100);
  const auto done = unit.take(3);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, NKV_STATUS_OK);
}

TEST(PhaseTest, AStoppedQueueDoesNotWait) {
  FrontUnit unit(kUsual);
  unit.enable(3);
  unit.skip(3);
  unit.ring(3);
  unit.cycles(500);
  unit.write(NKV_REG_QUEUE_CONTROL(3), 0);
  unit.cycles(kRead);
  EXPECT_EQ(unit.read(NKV_REG_QUEUE_STATUS(3)), 0U);
  unit.enable(3, 1);
  unit.submit(3, {.tag = 5});
  unit.ring(3);
  unit.cycles(500);
  const auto done = unit.take(3);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status, NKV_STATUS_OK);
  unit.cycles(kPatience);
  EXPECT_EQ(unit.written.size(), 1U);
}

TEST(PhaseTest, ASecondReadThatMemoryDoesNotAnswerEndsTheWaitToo) {
  FrontUnit unit(kUsual);
  unit.memory().set_faults(
      {.poisoned = {}, .drop_read = 2, .drop_write = 0, .drop_writes = 1, .refuse_write = 0});
  unit.enable(3);
  unit.skip(3);
  unit.submit(3, {.tag = 9});
  unit.ring(3);
  unit.cycles(kPatience + 200);
  const auto missing = unit.take(3);
  const auto next = unit.take(3);
  ASSERT_TRUE(missing && next);
  EXPECT_EQ(missing->status, NKV_STATUS_NOT_WRITTEN);
  EXPECT_EQ(next->status, NKV_STATUS_OK);
}

}  // namespace
}  // namespace nearkv::rtl_test
