// A pool whose device is late: a time-out changes nothing, and the next call meets nothing of it.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/layer_rows.hpp"

namespace nearkv::test {
namespace {

using std::chrono::milliseconds;

/// A device that, while it is lazy, begins a batch of commands only when its queue is told to stop,
/// and ends it then; or, while it is stubborn, does not stop.
class LateDevice : public Device {
 public:
  explicit LateDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  bool is_lazy = false;
  bool is_stubborn = false;

  std::uint64_t read_csr(std::uint32_t offset) override {
    if (offset == NKV_REG_QUEUE_STATUS(0) && is_stubborn) return NKV_REG_QUEUE_STATUS_RUNNING_MASK;
    return device_->read_csr(offset);
  }

  void write_csr(std::uint32_t offset, std::uint64_t value) override {
    if (offset == NKV_REG_SQ_TAIL(0) && is_lazy && value != 0) {
      tail_ = value;
      return;
    }
    if (offset == NKV_REG_QUEUE_CONTROL(0) && value == 0) {
      if (is_stubborn) return;
      end_commands();
    }
    device_->write_csr(offset, value);
  }

  /// What the device does in the end, whoever still waits.
  void end_commands() {
    if (tail_ == 0) return;
    std::uint64_t epoch = 0;
    (void)device_->wait(&epoch, milliseconds(0));
    device_->write_csr(NKV_REG_SQ_TAIL(0), std::exchange(tail_, 0));
    (void)device_->wait(&epoch, std::chrono::seconds(10));
  }

  std::span<std::byte> memory() override { return device_->memory(); }
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override {
    return device_->wait(epoch, timeout);
  }

 private:
  std::unique_ptr<Device> device_;
  std::uint64_t tail_ = 0;  ///< Of commands that it has not begun; 0: none.
};

class PoolTimeoutTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = std::make_shared<LateDevice>(open_or_throw(GetParam()));
    options_.timeout = milliseconds(1000);
    pool_ = create_or_throw(device_, options_);
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    ASSERT_EQ(append(1, first_), Status::kOk) << pool_->last_error();
  }

  void open() {
    pool_.reset();
    std::string reason;
    ASSERT_EQ(Pool::open(device_, options_, &pool_, &reason), Status::kOk) << reason;
  }

  Status append(std::uint64_t sequence, const LayerRows& rows) {
    return test::append(pool_.get(), sequence, 0, rows, 0, rows.heads[0].tokens);
  }

  std::uint32_t tokens(std::uint64_t sequence) {
    std::uint32_t tokens = 0;
    EXPECT_EQ(pool_->tokens(sequence, 0, &tokens), Status::kOk);
    return tokens;
  }

  LayerRows first_{128, 1};
  LayerRows second_{256, 2};
  Pool::Options options_ = small_pool();
  std::shared_ptr<LateDevice> device_;
  std::unique_ptr<Pool> pool_;
};

TEST_P(PoolTimeoutTest, ChangesNothingAndThePoolGoesOn) {
  const PoolUsage before = pool_->usage();
  device_->is_lazy = true;
  EXPECT_EQ(append(1, second_), Status::kTimeout);
  EXPECT_EQ(pool_->transcode(1, NKV_CODEC_INT8), Status::kTimeout);
  device_->is_lazy = false;
  EXPECT_EQ(pool_->usage().pages, before.pages);
  EXPECT_EQ(tokens(1), 128U);
  EXPECT_TRUE(holds(pool_.get(), 1, 0, 0, first_)) << pool_->last_error();

  ASSERT_EQ(pool_->create_sequence(2), Status::kOk);
  ASSERT_EQ(append(2, second_), Status::kOk) << pool_->last_error();
  open();
  EXPECT_EQ(tokens(1), 128U);
  EXPECT_TRUE(holds(pool_.get(), 1, 0, 0, first_));
  EXPECT_TRUE(holds(pool_.get(), 2, 0, 0, second_));
}

TEST_P(PoolTimeoutTest, ADeviceThatDoesNotStopKeepsWhatItMayWrite) {
  device_->is_lazy = device_->is_stubborn = true;
  EXPECT_EQ(append(1, second_), Status::kTimeout);
  const std::uint64_t pages = pool_->usage().pages;
  std::uint32_t ignored = 0;
  for (const Status status : {append(1, second_), pool_->create_sequence(2), pool_->drop(1),
                              pool_->tokens(1, 0, &ignored)}) {
    EXPECT_EQ(status, Status::kTimeout);
    EXPECT_NE(pool_->last_error().find("open the pool anew"), std::string::npos)
        << pool_->last_error();
  }
  EXPECT_EQ(pool_->usage().pages, pages);
  std::string reason;
  std::unique_ptr<Pool> another;
  EXPECT_EQ(Pool::open(device_, options_, &another, &reason), Status::kTimeout);
  EXPECT_NE(reason.find("does not stop"), std::string::npos) << reason;

  device_->end_commands();
  device_->is_lazy = device_->is_stubborn = false;
  open();
  // An append that was not acknowledged may have left its first pages.
  EXPECT_GE(tokens(1), 128U);
  EXPECT_TRUE(holds(pool_.get(), 1, 0, 0, first_));
  EXPECT_EQ(append(1, second_), Status::kOk) << pool_->last_error();
}

TEST_P(PoolTimeoutTest, NoTimeIsTooLong) {
  options_.timeout = milliseconds::max();
  open();
  EXPECT_EQ(append(1, second_), Status::kOk) << pool_->last_error();
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolTimeoutTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
