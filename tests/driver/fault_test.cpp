// A program at work on a card that fails under it: each call is a status, none hangs, and what is
// given with kOk is right. NEARKV_TEST_FAULT names the status that whoever runs this is about to
// cause (tests/guest/test_faults.py); OK: nothing is to be seen of the fault.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "card_file.hpp"
#include "nearkv/pool.hpp"
#include "nearkv/queue.hpp"
#include "support/layer_rows.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 2s;   ///< With a command.
constexpr auto kFaultless = 4s;  ///< How long OK works on.
constexpr auto kLimit = 60s;     ///< For the fault to come.

std::string name_of(Status status) { return nkv_status_name(static_cast<std::uint8_t>(status)); }

/// Tells who injects the fault that there is work in flight.
void tell_that_it_works() { std::cout << "working\n" << std::flush; }

class FaultTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    const char* const fault = std::getenv("NEARKV_TEST_FAULT");
    if (fault == nullptr) GTEST_SKIP() << "NEARKV_TEST_FAULT is not set: no fault to come";
    fault_ = fault;
    std::string reason;
    ASSERT_EQ(open_device("linux:" + card_path() + "?memory=4MiB", &device_, &reason), Status::kOk)
        << reason;
  }

  /// Calls work() until it gives another status than kOk, which it returns.
  template <typename Work>
  Status work_until_it_fails(Work work) const {
    const auto deadline = Clock::now() + (fault_ == "OK" ? Clock::duration(kFaultless) : kLimit);
    bool has_told = false;
    while (Clock::now() < deadline) {
      const Status status = work();
      if (status != Status::kOk) return status;
      if (!std::exchange(has_told, true)) tell_that_it_works();
    }
    return Status::kOk;
  }

  void expect_gone() const {
    EXPECT_TRUE(device_->is_gone());
    EXPECT_EQ(device_->read_csr(NKV_REG_ID), ~std::uint64_t{0});
    std::uint64_t epoch = 0;
    EXPECT_EQ(device_->wait(&epoch, 1s), Status::kNoDevice);
    // Its last page has not been touched before.
    EXPECT_EQ(device_->memory().back(), std::byte{0xFF});
    std::ranges::fill(device_->memory(), std::byte{1});
  }

  std::string fault_;
  std::shared_ptr<Device> device_;

 private:
  static Status open_device(const std::string& uri, std::shared_ptr<Device>* device,
                            std::string* reason) {
    std::unique_ptr<Device> opened;
    const Status status = nearkv::open_device(uri, &opened, reason);
    *device = std::move(opened);
    return status;
  }
};

class QueueFaultTest : public FaultTest {
 protected:
  static constexpr std::uint32_t kAtOnce = 16;

  Status open() {
    Queue::Options options;
    options.window_bytes = device_->memory().size();
    queue_.reset();
    next_ = 0;
    return Queue::open(device_.get(), options, &queue_);
  }

  Status submit() {
    std::uint16_t tag = 0;
    while (queue_->in_flight() < kAtOnce) {
      nkv_pages_command nop{};
      nop.opcode = NKV_OPCODE_NOP;
      const Status status = queue_->submit(nop, &tag);
      if (status != Status::kOk) return status;
    }
    queue_->ring();
    return Status::kOk;
  }

  /// Keeps commands in flight; kInternal if a completion is not that of the oldest one.
  Status work() {
    Status status = submit();
    if (status == Status::kOk) status = queue_->wait(kPatience);
    if (status != Status::kOk) return status;
    nkv_completion completion{};
    while (queue_->poll(std::span(&completion, 1)) != 0) {
      if (completion.status != NKV_STATUS_OK) return static_cast<Status>(completion.status);
      if (completion.tag != next_++) return Status::kInternal;
    }
    return Status::kOk;
  }

  /// A card that was reset takes queues again, but not before it is over.
  Status open_again() {
    const auto deadline = Clock::now() + 20s;
    Status status = open();
    while (status != Status::kOk && Clock::now() < deadline) {
      std::this_thread::sleep_for(20ms);
      status = open();
    }
    return status;
  }

  std::unique_ptr<Queue> queue_;
  std::uint16_t next_ = 0;
};

TEST_F(QueueFaultTest, GivesAStatusAndGoesOn) {
  ASSERT_EQ(open(), Status::kOk);
  const Status status = work_until_it_fails([this] { return work(); });
  if (fault_ != "ANY") {
    EXPECT_EQ(name_of(status), fault_);
  } else {
    EXPECT_NE(status, Status::kOk);
  }
  // Whatever it was, these come back.
  const auto before = Clock::now();
  EXPECT_EQ(submit(), Status::kOk);
  const Status again = queue_->wait(100ms);
  EXPECT_LT(Clock::now() - before, 5s);
  if (status == Status::kNoDevice) {
    EXPECT_EQ(again, Status::kNoDevice);
    expect_gone();
    EXPECT_EQ(open(), Status::kNoDevice);
  }
  if (status == Status::kAborted) {
    EXPECT_FALSE(device_->is_gone());
    ASSERT_EQ(open_again(), Status::kOk);
    EXPECT_EQ(work(), Status::kOk);
  }
}

TEST_F(FaultTest, PoolGivesAStatusAndNeverWrongRows) {
  const LayerRows rows(128, 5);
  std::unique_ptr<Pool> pool;
  std::string reason;
  Pool::Options options = small_pool();
  options.timeout = kPatience;
  ASSERT_EQ(Pool::create(device_, options, &pool, &reason), Status::kOk) << reason;
  ASSERT_EQ(pool->create_sequence(1), Status::kOk);
  ASSERT_EQ(append(pool.get(), 1, 0, rows, 0, 128), Status::kOk) << pool->last_error();
  std::vector<std::uint16_t> keys(128 * kDim);
  std::vector<std::uint16_t> values(128 * kDim);
  const auto read = [&] {
    return pool->read(1, 0, 1, 0, 128, std::as_writable_bytes(std::span(keys)),
                      std::as_writable_bytes(std::span(values)));
  };
  bool is_right = true;
  const Status status = work_until_it_fails([&] {
    const Status ended = read();
    if (ended == Status::kOk) {
      is_right = is_right && keys == rows.heads[1].keys && values == rows.heads[1].values;
    }
    return ended;
  });
  EXPECT_TRUE(is_right);
  EXPECT_EQ(name_of(status), fault_) << pool->last_error();
  if (status == Status::kNoDevice) {
    EXPECT_EQ(read(), Status::kNoDevice);
    EXPECT_EQ(append(pool.get(), 1, 1, rows, 0, 64), Status::kNoDevice);
    EXPECT_EQ(pool->create_sequence(2), Status::kNoDevice);
    EXPECT_EQ(pool->drop(1), Status::kNoDevice);
    expect_gone();
  }
}

}  // namespace
}  // namespace nearkv::test
