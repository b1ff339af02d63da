// Queues over every device: what a new one meets of the old, and how waiting ends.
#include "nearkv/queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "support/bench_device.hpp"
#include "support/devices.hpp"

namespace nearkv::test {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class QueueTest : public testing::TestWithParam<std::string> {
 protected:
  QueueTest() {
    options_.index = 2;
    options_.rings_at = 1 << 19;  // Before the bench's window.
    options_.window_base = 1 << 20;
    options_.window_bytes = bench_.window().size();
  }

  Status open() {
    queue_.reset();
    return Queue::open(&bench_.device(), options_, &queue_);
  }

  template <typename Command>
  void submit(const Command& command) {
    std::uint16_t tag = 0;
    ASSERT_EQ(queue_->submit(command, &tag), Status::kOk);
    queue_->ring();
  }

  nkv_completion next() {
    nkv_completion completion{};
    EXPECT_EQ(queue_->wait(kPatience), Status::kOk);
    EXPECT_EQ(queue_->poll(std::span(&completion, 1)), 1U);
    return completion;
  }

  /// A NOP, written by hand in the first round.
  void write_slot(unsigned index) {
    first_word(index).store(NKV_OPCODE_NOP | NKV_SLOT_FLAG_PHASE << 8, std::memory_order_release);
  }
  /// What the device says of a command of the first round, once it says something.
  nkv_completion completion(unsigned index) {
    const unsigned entry = options_.ring_entries + index;
    const auto deadline = steady_clock::now() + kPatience;
    while (first_word(entry).load() >> 24 != 1 && steady_clock::now() < deadline) {
      (void)bench_.device().wait(&epoch_, std::chrono::milliseconds(10));
    }
    nkv_completion completion{};
    std::memcpy(&completion, slot(entry), sizeof(completion));
    return completion;
  }
  /// As a doorbell does that overtakes the stores before it.
  void ring_ahead(unsigned tail) { bench_.device().write_csr(NKV_REG_SQ_TAIL(2), tail); }

  std::byte* slot(unsigned index) {
    return bench_.device().memory().data() + options_.rings_at + index * NKV_COMMAND_BYTES;
  }
  std::atomic_ref<std::uint32_t> first_word(unsigned index) {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(slot(index)));
  }

  static constexpr seconds kPatience{60};
  BenchDevice bench_{GetParam()};
  Queue::Options options_;
  std::unique_ptr<Queue> queue_;
  std::uint64_t epoch_ = 0;
};

TEST_P(QueueTest, TakesNoCompletionsOfTheOneBeforeIt) {
  const KvData data = make_kv(Shape::kTopics, 8 * NKV_PAGE_TOKENS, 64, 64, 5);
  const nkv_append_command slow = append_command(&bench_, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  ASSERT_EQ(open(), Status::kOk);
  submit(slow);
  (void)queue_->wait(std::chrono::milliseconds(2));  // So that it has begun.
  ASSERT_EQ(open(), Status::kOk);
  for (std::uint16_t number = 0; number < 3; ++number) {
    submit(nkv_pages_command{});
    const nkv_completion done = next();
    EXPECT_EQ(done.tag, number);
    EXPECT_EQ(done.status, NKV_STATUS_OK);
    EXPECT_EQ(done.count, 0U) << "pages of the APPEND";
    EXPECT_EQ(done.sq_head, number + 1);
  }
}

TEST_P(QueueTest, AResetEndsAWait) {
  ASSERT_EQ(open(), Status::kOk);
  const auto before = steady_clock::now();
  std::thread resets([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    bench_.device().write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  });
  EXPECT_EQ(queue_->wait(kPatience), Status::kAborted);
  resets.join();
  submit(nkv_pages_command{});
  EXPECT_EQ(queue_->wait(kPatience), Status::kAborted);
  EXPECT_LT(steady_clock::now() - before, kPatience / 2);
}

TEST_P(QueueTest, WaitsForAsLongAsItIsTold) {
  ASSERT_EQ(open(), Status::kOk);
  const auto before = steady_clock::now();
  EXPECT_EQ(queue_->wait(std::chrono::milliseconds(250)), Status::kTimeout);
  EXPECT_GE(steady_clock::now() - before, std::chrono::milliseconds(250));
  submit(nkv_pages_command{});
  EXPECT_EQ(queue_->wait(nanoseconds::max()), Status::kOk);
}

// A busy machine may let the device's patience end first.
TEST_P(QueueTest, ACommandMayComeBehindItsDoorbell) {
  std::uint8_t status = NKV_STATUS_NOT_WRITTEN;
  for (unsigned tries = 0; tries < 100 && status == NKV_STATUS_NOT_WRITTEN; ++tries) {
    ASSERT_EQ(open(), Status::kOk);
    std::thread host([this] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      write_slot(0);
    });
    ring_ahead(1);
    host.join();
    status = completion(0).status;
  }
  EXPECT_EQ(status, NKV_STATUS_OK);
}

TEST_P(QueueTest, ACommandThatIsNotWrittenEndsAndTheNextOneRuns) {
  ASSERT_EQ(open(), Status::kOk);
  write_slot(1);
  ring_ahead(2);
  EXPECT_EQ(completion(0).status, NKV_STATUS_NOT_WRITTEN);
  EXPECT_EQ(completion(0).tag, 0U);
  EXPECT_EQ(completion(0).sq_head, 1U);
  EXPECT_EQ(completion(1).status, NKV_STATUS_OK);
}

TEST_P(QueueTest, TellsWhichCommandTheDeviceNeverSaw) {
  ASSERT_EQ(open(), Status::kOk);
  std::uint16_t tag = 0;
  ASSERT_EQ(queue_->submit(nkv_pages_command{}, &tag), Status::kOk);
  ASSERT_EQ(queue_->submit(nkv_pages_command{}, &tag), Status::kOk);
  first_word(1) ^= NKV_SLOT_FLAG_PHASE << 8;  // It is lost on its way.
  queue_->ring();
  EXPECT_EQ(next().status, NKV_STATUS_OK);
  const nkv_completion lost = next();
  EXPECT_EQ(lost.status, NKV_STATUS_NOT_WRITTEN);
  EXPECT_EQ(lost.tag, tag);
}

TEST_P(QueueTest, ACommandThatWasTakenBackIsNotFound) {
  ASSERT_EQ(open(), Status::kOk);
  std::uint16_t tag = 0;
  ASSERT_EQ(queue_->submit(nkv_pages_command{}, &tag), Status::kOk);
  queue_->take_back();
  ring_ahead(1);
  EXPECT_EQ(completion(0).status, NKV_STATUS_NOT_WRITTEN);
}

INSTANTIATE_TEST_SUITE_P(Devices, QueueTest, testing::ValuesIn(device_uris()), device_name);

/// A device of which no queue that ran ever stands still.
class Restless : public Device {
 public:
  explicit Restless(Device* device) : device_(device) {}
  std::uint64_t read_csr(std::uint32_t offset) override {
    return offset == NKV_REG_QUEUE_STATUS(2) ? NKV_REG_QUEUE_STATUS_RUNNING_MASK
                                             : device_->read_csr(offset);
  }
  void write_csr(std::uint32_t offset, std::uint64_t value) override {
    device_->write_csr(offset, value);
  }
  std::span<std::byte> memory() override { return device_->memory(); }
  Status wait(std::uint64_t* epoch, nanoseconds timeout) override {
    return device_->wait(epoch, timeout);
  }

 private:
  Device* device_;
};

TEST(QueueOfRestlessDeviceTest, IsNotOpened) {
  BenchDevice bench("cpu:?memory=4MiB&threads=1");
  Restless device(&bench.device());
  Queue::Options options;
  options.index = 2;
  options.rings_at = 1 << 19;
  options.window_bytes = bench.device().memory().size();
  options.stop_timeout = std::chrono::milliseconds(20);
  const std::span<std::byte> rings =
      device.memory().subspan(options.rings_at, Queue::ring_bytes(options.ring_entries));
  std::ranges::fill(rings, std::byte{1});
  std::unique_ptr<Queue> queue;
  EXPECT_EQ(Queue::open(&device, options, &queue), Status::kTimeout);
  EXPECT_EQ(queue, nullptr);
  EXPECT_TRUE(std::ranges::all_of(rings, [](std::byte byte) { return byte == std::byte{1}; }))
      << "that the device may still use";
}

}  // namespace
}  // namespace nearkv::test
