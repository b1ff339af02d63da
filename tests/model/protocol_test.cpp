// Registers, rings and doorbells: what a host may rely on, whatever the commands do.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "device.hpp"

namespace nearkv::test {
namespace {

constexpr int64_t kNoWait = 0;

CommandBytes no_operation(uint16_t tag) {
  CommandBytes command{};
  std::memcpy(command.data() + offsetof(nkv_append_command, tag), &tag, sizeof(tag));
  return command;
}

QueueSetup good_setup() {
  return {.number = 0,
          .entries = 16,
          .sq_base = 0,
          .cq_base = 1024,
          .window_base = 4096,
          .window_bytes = 65536,
          .tenant = 1};
}

void expect_refused(Card& card, const QueueSetup& setup) {
  QueueDriver queue(card, setup);
  EXPECT_FALSE(queue.enable());
  const uint32_t n = setup.number;
  EXPECT_EQ(card.read_csr(NKV_REG_QUEUE_STATUS(n)), NKV_REG_QUEUE_STATUS_REFUSED_MASK);
  card.write_csr(NKV_REG_SQ_TAIL(n), 1);
  EXPECT_EQ(card.wait(kNoWait), -ETIMEDOUT) << "a refused queue ran a command";
  card.write_csr(NKV_REG_QUEUE_CONTROL(n), 0);
  EXPECT_EQ(card.read_csr(NKV_REG_QUEUE_STATUS(n)), 0u);
}

TEST(Plugin, HasTheVersionOfTheHeader) {
  EXPECT_EQ(Card::table().version, NKV_DEVICE_PLUGIN_VERSION);
}

TEST(Plugin, TakesTheMemorySizeFromTheUri) {
  EXPECT_EQ(Card("").memory().size(), size_t{256} << 20);
  EXPECT_EQ(Card("?memory=64KiB").memory().size(), size_t{64} << 10);
  EXPECT_EQ(Card("?memory=3MiB").memory().size(), size_t{3} << 20);
  EXPECT_EQ(Card("?memory=1GiB").memory().size(), size_t{1} << 30);
  EXPECT_EQ(Card("?memory=8192").memory().size(), 8192u);
}

TEST(Plugin, RefusesOtherArguments) {
  for (const char* arguments :
       {"?", "?memory", "?memory=", "?memory=0", "?memory=1", "?memory=-4096", "?memory=64MB",
        "?memory=64MiB&x=1", "?threads=2", "memory=64MiB", "?memory=99999999999999999999",
        "?memory=17592186044416MiB", "?memory=8589934592GiB"}) {
    char error[128] = "";
    EXPECT_EQ(Card::table().open(arguments, error, sizeof(error)), nullptr) << arguments;
    EXPECT_STRNE(error, "") << arguments;
  }
}

TEST(Registers, SayWhatTheDeviceIs) {
  Card card("?memory=1MiB");
  EXPECT_EQ(card.read_csr(NKV_REG_ID), NKV_ABI_ID);
  EXPECT_EQ(card.read_csr(NKV_REG_ABI) & NKV_REG_ABI_MAJOR_MASK, uint64_t{NKV_ABI_MAJOR});
  EXPECT_EQ(card.read_csr(NKV_REG_MEMORY_BYTES), uint64_t{1} << 20);
  EXPECT_EQ(card.read_csr(NKV_REG_TICK_HZ), 0u);
  EXPECT_EQ(card.read_csr(NKV_REG_DEVICE_STATUS), NKV_REG_DEVICE_STATUS_READY_MASK);
  const uint64_t limits = card.read_csr(NKV_REG_LIMITS);
  EXPECT_EQ(limits >> NKV_REG_LIMITS_QUEUES_SHIFT & 0xff, uint64_t{NKV_MAX_QUEUES});
  EXPECT_EQ(limits >> NKV_REG_LIMITS_GROUP_SHIFT & 0xff, uint64_t{NKV_MAX_GROUP});
  EXPECT_EQ(limits >> NKV_REG_LIMITS_HEAD_DIM_SHIFT & 0xffff, uint64_t{NKV_MAX_HEAD_DIM});
  EXPECT_EQ(limits >> NKV_REG_LIMITS_TOP_K_SHIFT & 0xffff, uint64_t{NKV_MAX_TOP_K});
  EXPECT_EQ(1ULL << (limits >> NKV_REG_LIMITS_TOKENS_LOG2_SHIFT & 0xff), uint64_t{NKV_MAX_TOKENS});
  EXPECT_EQ(card.read_csr(NKV_REG_FEATURES) & NKV_FEATURE_TICKS, 0u);
}

TEST(Registers, WhatSoftwareWritesStartsAtZeroAndReadsBack) {
  Card card("?memory=1MiB");
  for (uint32_t n = 0; n < NKV_MAX_QUEUES; ++n) {
    for (const uint32_t offset :
         {NKV_REG_SQ_BASE(n), NKV_REG_CQ_BASE(n), NKV_REG_RING_ENTRIES(n), NKV_REG_SQ_TAIL(n),
          NKV_REG_CQ_HEAD(n), NKV_REG_WINDOW_BASE(n), NKV_REG_WINDOW_BYTES(n)}) {
      EXPECT_EQ(card.read_csr(offset), 0u);
      card.write_csr(offset, 0x123456789abcdef0u + offset);
      EXPECT_EQ(card.read_csr(offset), 0x123456789abcdef0u + offset);
    }
    card.write_csr(NKV_REG_TENANT(n), ~uint64_t{0});
    EXPECT_EQ(card.read_csr(NKV_REG_TENANT(n)), NKV_REG_TENANT_NUMBER_MASK);
  }
}

TEST(Registers, ReadOnlyOnesIgnoreWrites) {
  Card card("?memory=1MiB");
  for (const uint32_t offset : {NKV_REG_ID, NKV_REG_ABI, NKV_REG_FEATURES, NKV_REG_MEMORY_BYTES,
                                NKV_REG_LIMITS, NKV_REG_DEVICE_STATUS, NKV_REG_QUEUE_STATUS(0)}) {
    const uint64_t before = card.read_csr(offset);
    card.write_csr(offset, ~before);
    EXPECT_EQ(card.read_csr(offset), before);
  }
}

TEST(Registers, NothingLiesBetweenThem) {
  Card card("?memory=1MiB");
  for (const uint32_t offset : {0x98u, 0xff8u, 0x1060u, 0x1078u, NKV_REG_MAP_BYTES, ~7u}) {
    EXPECT_EQ(card.read_csr(offset), ~uint64_t{0}) << offset;
    card.write_csr(offset, 1);
  }
}

TEST(Registers, ThoseOfFeaturesThatAreNotThereReadZeroAndIgnoreWrites) {
  Card card("?memory=1MiB");
  EXPECT_EQ(card.read_csr(NKV_REG_FEATURES) &
                (NKV_FEATURE_QUEUE_WEIGHTS | NKV_FEATURE_INTERRUPTS | NKV_FEATURE_COUNTERS |
                 NKV_FEATURE_ERROR_LOG | NKV_FEATURE_INLINE_CONTROL | NKV_FEATURE_MEMORY_DOORBELLS |
                 NKV_FEATURE_HOTNESS),
            0u);
  for (const uint32_t offset :
       {NKV_REG_TICK_COUNT, NKV_REG_INTERRUPT_STATUS, NKV_REG_INTERRUPT_MASK, NKV_REG_ERROR_STATE,
        NKV_REG_ERROR_HEAD, NKV_REG_INLINE_CONTROL, NKV_REG_INLINE_LIMITS, NKV_REG_INLINE_LOAD,
        NKV_REG_DOORBELL_BASE, NKV_REG_DOORBELL_ENABLE, NKV_REG_ERROR_ENTRY(3u),
        NKV_REG_ERROR_DETAIL(15u), NKV_REG_WEIGHT(0u), NKV_REG_COALESCE(15u),
        NKV_REG_TOTAL_COMMANDS(0u), NKV_REG_TOTAL_MEMORY_WAIT_TICKS(15u), NKV_REG_HOST_HOTNESS(0u),
        NKV_REG_NEAR_HOTNESS(2047u)}) {
    card.write_csr(offset, ~uint64_t{0});
    EXPECT_EQ(card.read_csr(offset), 0u) << offset;
  }
}

TEST(Queue, IsRefusedWithRingsOrWindowOutsideMemory) {
  Card card("?memory=1MiB");
  const uint64_t memory = card.memory().size();
  const auto with = [](auto change) {
    QueueSetup setup = good_setup();
    change(setup);
    return setup;
  };
  expect_refused(card, with([&](QueueSetup& s) { s.sq_base = memory - 512; }));
  expect_refused(card, with([&](QueueSetup& s) { s.cq_base = memory; }));
  expect_refused(card, with([](QueueSetup& s) { s.sq_base = ~uint64_t{0} - 63; }));
  expect_refused(card, with([](QueueSetup& s) { s.cq_base = 1024 + 32; }));
  expect_refused(card, with([&](QueueSetup& s) { s.window_bytes = memory; }));
  expect_refused(card, with([](QueueSetup& s) { s.window_base = ~uint64_t{0}; }));
  expect_refused(card, with([](QueueSetup& s) { s.window_bytes = ~uint64_t{0} - 4095; }));
}

TEST(Queue, IsRefusedWithAnotherRingSize) {
  Card card("?memory=1MiB");
  for (const uint32_t entries : {1u, 8u, 24u, 8192u}) {
    QueueSetup setup = good_setup();
    setup.entries = entries;
    expect_refused(card, setup);
  }
}

TEST(Queue, CompletesInOrderAndAlternatesItsPhase) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  for (uint16_t tag = 0; tag < 100; ++tag) {
    const nkv_completion completion = queue.run(no_operation(tag));  // Checks the phase.
    EXPECT_EQ(completion.tag, tag);
    EXPECT_EQ(completion.status, NKV_STATUS_OK);
    EXPECT_EQ(completion.sq_head, tag + 1);
  }
}

TEST(Queue, RunsPastTheWrapOfItsIndices) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  for (uint32_t i = 0; i < 70000; ++i) {
    ASSERT_EQ(queue.run(no_operation(static_cast<uint16_t>(i))).tag, static_cast<uint16_t>(i));
  }
}

TEST(Queue, ABatchCompletesWhole) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  for (uint16_t tag = 0; tag < 16; ++tag) queue.place(no_operation(tag));
  queue.ring();
  nkv_completion completion{};
  for (uint16_t tag = 0; tag < 16; ++tag) {
    ASSERT_TRUE(queue.poll(&completion));
    EXPECT_EQ(completion.tag, tag);
  }
}

TEST(Queue, AFullCompletionRingStopsFetchingUntilTheHostReads) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  nkv_completion completion{};
  for (uint16_t tag = 0; tag < 16; ++tag) queue.place(no_operation(tag));
  queue.ring();
  for (uint16_t tag = 16; tag < 24; ++tag) queue.place(no_operation(tag));
  queue.ring();
  for (uint16_t tag = 0; tag < 16; ++tag) ASSERT_TRUE(queue.poll(&completion));
  EXPECT_EQ(completion.tag, 15);
  EXPECT_FALSE(queue.poll(&completion)) << "an unread completion was overwritten";
  queue.release();
  for (uint16_t tag = 16; tag < 24; ++tag) {
    ASSERT_TRUE(queue.poll(&completion));
    EXPECT_EQ(completion.tag, tag);
  }
}

TEST(Queue, ADoorbellBeyondTheRingFetchesNothing) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  card.write_csr(NKV_REG_SQ_TAIL(0), 17);
  nkv_completion completion{};
  EXPECT_FALSE(queue.poll(&completion));
  EXPECT_EQ(queue.run(no_operation(3)).tag, 3);
}

TEST(Queue, KeepsItsSetupFromTheMomentItWasEnabled) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  card.write_csr(NKV_REG_SQ_BASE(0), 1 << 19);
  card.write_csr(NKV_REG_CQ_BASE(0), ~uint64_t{0});
  card.write_csr(NKV_REG_RING_ENTRIES(0), 3);
  card.write_csr(NKV_REG_WINDOW_BYTES(0), ~uint64_t{0});
  EXPECT_EQ(queue.run(no_operation(3)).tag, 3);
}

TEST(Queue, StopsWhenDisabledAndStartsAgainAtZero) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  EXPECT_EQ(queue.run(no_operation(1)).sq_head, 1);
  card.write_csr(NKV_REG_QUEUE_CONTROL(0), 0);
  EXPECT_EQ(card.read_csr(NKV_REG_QUEUE_STATUS(0)), 0u);
  queue.place(no_operation(2));
  queue.ring();
  nkv_completion completion{};
  EXPECT_FALSE(queue.poll(&completion));
  std::memset(card.memory().data() + good_setup().cq_base, 0, 1024);
  ASSERT_TRUE(queue.enable());
  EXPECT_EQ(queue.run(no_operation(9)).sq_head, 1);
}

TEST(Queue, ResetDisablesAllQueues) {
  Card card("?memory=1MiB");
  QueueSetup other = good_setup();
  other.number = 15;
  other.sq_base = 2048;
  other.cq_base = 3072;
  QueueDriver first(card, good_setup());
  QueueDriver last(card, other);
  ASSERT_TRUE(first.enable());
  ASSERT_TRUE(last.enable());
  EXPECT_EQ(last.run(no_operation(4)).tag, 4);
  card.write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(card.read_csr(NKV_REG_CONTROL), 0u);
  for (const uint32_t n : {0u, 15u}) {
    EXPECT_EQ(card.read_csr(NKV_REG_QUEUE_CONTROL(n)), 0u);
    EXPECT_EQ(card.read_csr(NKV_REG_QUEUE_STATUS(n)), 0u);
  }
  EXPECT_EQ(card.read_csr(NKV_REG_SQ_BASE(15)), 2048u);
}

TEST(Queue, WaitTellsOfCompletionsAndTimesOut) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  EXPECT_EQ(card.wait(1000), -ETIMEDOUT);
  EXPECT_EQ(card.wait(-1), -ETIMEDOUT);
  queue.place(no_operation(1));
  queue.ring();
  EXPECT_EQ(card.wait(kNoWait), 0);
  EXPECT_EQ(card.wait(kNoWait), -ETIMEDOUT);
}

TEST(Queue, WaitWakesWhileAnotherThreadSubmits) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  int waited = -1;
  constexpr int64_t kLongNs = 60'000'000'000;
  std::thread waiter([&] { waited = card.wait(kLongNs); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  queue.place(no_operation(1));
  queue.ring();
  waiter.join();
  EXPECT_EQ(waited, 0);
}

TEST(Opcode, NopRefusesAnyOtherField) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  for (size_t i = 1; i < sizeof(CommandBytes); ++i) {
    if (i == 2 || i == 3) continue;  // The tag.
    CommandBytes command = no_operation(7);
    command[i] = std::byte{0x10};
    const nkv_completion completion = queue.run(command);
    EXPECT_EQ(completion.status, NKV_STATUS_BAD_FIELD);
    EXPECT_EQ(completion.detail, i);
    EXPECT_EQ(completion.tag, 7);
  }
}

TEST(Opcode, UnknownOnesAreRefused) {
  Card card("?memory=1MiB");
  QueueDriver queue(card, good_setup());
  ASSERT_TRUE(queue.enable());
  for (int opcode = NKV_OPCODE_COPY + 1; opcode < 256; ++opcode) {
    CommandBytes command = no_operation(7);
    command[0] = static_cast<std::byte>(opcode);
    EXPECT_EQ(queue.run(command).status, NKV_STATUS_BAD_OPCODE);
  }
}

}  // namespace
}  // namespace nearkv::test
