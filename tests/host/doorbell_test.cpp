// Doorbells in device memory: a store there is a write of the register, and no call of the library.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "nearkv/lent_queue.hpp"
#include "support/bench_device.hpp"
#include "support/devices.hpp"
#include "support/eventually.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr unsigned kQueue = 3;
constexpr std::uint32_t kEntries = 16;

/// A queue whose rings and doorbell are written by hand, as who has no registers writes them.
class DoorbellTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!offers_feature(device(), NKV_FEATURE_MEMORY_DOORBELLS)) {
      GTEST_SKIP() << "skipped: this device has no doorbells in memory (register FEATURES)";
    }
    const std::uint64_t bytes = Queue::ring_bytes(kEntries);
    options_.queue.index = kQueue;
    options_.queue.ring_entries = kEntries;
    options_.queue.rings_at = address(bench_.allocate(bytes));
    options_.queue.window_base = address(0);
    options_.queue.window_bytes = bench_.window().size();
    options_.doorbells_at = address(bench_.allocate(LentQueue::doorbell_bytes()));
    rings_ = memory().subspan(options_.queue.rings_at, bytes);
    line().sq_tail = 7;  // What somebody left there.
    ASSERT_EQ(LentQueue::open(&device(), options_, &queue_), Status::kOk);
  }

  Device& device() { return bench_.device(); }
  std::span<std::byte> memory() { return device().memory(); }
  std::uint64_t address(std::uint64_t in_window) {
    return static_cast<std::uint64_t>(bench_.window().data() - memory().data()) + in_window;
  }
  nkv_doorbell_line& line() {
    return *reinterpret_cast<nkv_doorbell_line*>(memory().data() + options_.doorbells_at +
                                                 kQueue * NKV_DOORBELL_STRIDE_BYTES);
  }

  void write_nop(std::uint16_t index) {
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_NOP;
    command.flags = index / kEntries % 2 == 0 ? NKV_SLOT_FLAG_PHASE : 0;
    command.tag = index;
    std::memcpy(rings_.data() + index % kEntries * sizeof(command), &command, sizeof(command));
  }
  void ring(std::uint16_t tail) { std::atomic_ref(line().sq_tail).store(tail); }

  std::uint32_t first_word(std::uint16_t index) {
    auto* const entry =
        rings_.data() + rings_.size() / 2 + index % kEntries * sizeof(nkv_completion);
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(entry)).load();
  }
  bool has_completed(std::uint16_t index) {
    const std::uint32_t phase = index / kEntries % 2 == 0 ? 1 : 0;
    return first_word(index) >> 24 == phase && (first_word(index) & 0xFFFF) == index;
  }

  BenchDevice bench_{GetParam()};
  LentQueue::Options options_;
  std::unique_ptr<LentQueue> queue_;
  std::span<std::byte> rings_;
};

TEST_P(DoorbellTest, AStoreSubmits) {
  for (std::uint16_t i = 0; i < 5; ++i) {
    write_nop(i);
    EXPECT_FALSE(has_completed(i));
    ring(static_cast<std::uint16_t>(i + 1));
    EXPECT_TRUE(eventually([&] { return has_completed(i); })) << i;
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * i));  // The device dozes meanwhile.
  }
  EXPECT_EQ(device().read_csr(NKV_REG_SQ_TAIL(kQueue)), 5U);
}

TEST_P(DoorbellTest, ACompletionIsOverwrittenOnlyWhenTheLineSaysThatItWasRead) {
  for (std::uint16_t i = 0; i < kEntries; ++i) write_nop(i);
  ring(kEntries);
  ASSERT_TRUE(eventually([&] { return has_completed(kEntries - 1); }));
  write_nop(kEntries);
  ring(kEntries + 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_completed(kEntries));
  std::atomic_ref(line().cq_head).store(1);
  EXPECT_TRUE(eventually([&] { return has_completed(kEntries); }));
}

TEST_P(DoorbellTest, RegistersWorkBesideThem) {
  for (std::uint16_t i = 0; i < 3; ++i) {
    write_nop(i);
    device().write_csr(NKV_REG_SQ_TAIL(kQueue), i + 1U);
    EXPECT_TRUE(eventually([&] { return has_completed(i); })) << i;
  }
  nkv_pages_command nop{};
  EXPECT_EQ(bench_.run(nop).status, NKV_STATUS_OK);  // On a queue without a doorbell in memory.
}

TEST_P(DoorbellTest, WhatStoodThereBeforeTheyWereEnabledWasNotRung) {
  device().write_csr(NKV_REG_DOORBELL_ENABLE, 0);
  write_nop(0);
  ring(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_completed(0));
  device().write_csr(NKV_REG_DOORBELL_ENABLE, 1U << kQueue);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_completed(0));
  write_nop(1);
  ring(2);
  EXPECT_TRUE(eventually([&] { return has_completed(1); }));
}

TEST_P(DoorbellTest, AResetDisablesThem) {
  device().write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  EXPECT_EQ(device().read_csr(NKV_REG_DOORBELL_ENABLE), 0U);
  write_nop(0);
  ring(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_completed(0));
}

TEST_P(DoorbellTest, LinesOutsideMemoryAreNone) {
  for (const std::uint64_t base :
       {memory().size(), memory().size() - 8, ~std::uint64_t{63}, options_.doorbells_at + 1}) {
    device().write_csr(NKV_REG_DOORBELL_BASE, base);
    device().write_csr(NKV_REG_DOORBELL_ENABLE, 0xFFFF);
    nkv_pages_command nop{};
    EXPECT_EQ(bench_.run(nop).status, NKV_STATUS_OK) << base;
  }
}

TEST_P(DoorbellTest, AQueueIsLentOnceAndWithTheDoorbellsThatOthersName) {
  std::unique_ptr<LentQueue> second;
  EXPECT_EQ(LentQueue::open(&device(), options_, &second), Status::kBadArgument);
  LentQueue::Options other = options_;
  other.queue.index = kQueue + 1;
  other.queue.rings_at = address(bench_.allocate(rings_.size()));
  other.doorbells_at += NKV_BURST_BYTES;
  EXPECT_EQ(LentQueue::open(&device(), other, &second), Status::kBadArgument);
  other.doorbells_at = memory().size() - NKV_BURST_BYTES;
  EXPECT_EQ(LentQueue::open(&device(), other, &second), Status::kBadArgument);
  other.doorbells_at = options_.doorbells_at;
  ASSERT_EQ(LentQueue::open(&device(), other, &second), Status::kOk);
  queue_.reset();
  EXPECT_EQ(device().read_csr(NKV_REG_DOORBELL_ENABLE), 1U << (kQueue + 1));
}

TEST_P(DoorbellTest, ATailBeyondTheRingWaitsForASaneOne) {
  write_nop(0);
  ring(kEntries + 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_completed(0));
  ring(1);
  EXPECT_TRUE(eventually([&] { return has_completed(0); }));
}

INSTANTIATE_TEST_SUITE_P(Devices, DoorbellTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
