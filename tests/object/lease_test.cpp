// Leases against those who want the objects gone at the same moment.
#include <atomic>
#include <chrono>
#include <thread>

#include "object/failing_medium.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

class LeaseTest : public FailingMediumTest {
 protected:
  void SetUp() override { create(256); }

  LeaseId pin(std::uint64_t key, std::chrono::nanoseconds duration) {
    const Bytes name = key_of(key);
    const Key keys[] = {name};
    Status status[1];
    return store_->pin(space_, keys, duration, status);
  }

  std::optional<std::uint64_t> generation(std::uint64_t key) {
    ObjectInfo info;
    if (store_->describe(space_, key_of(key), &info) != Status::kOk) return std::nullopt;
    return info.generation;
  }

  /// Pins object 1 again and again beside `work`, and expects that each lease holds it.
  template <typename Work>
  void expect_pinned_beside(Work work) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) work();
    });
    std::uint64_t pins = 0;
    std::uint64_t lost = 0;
    const auto end = std::chrono::steady_clock::now() + 500ms;
    while (std::chrono::steady_clock::now() < end) {
      const LeaseId lease = pin(1, 1h);
      if (lease == 0) continue;
      ++pins;
      const auto held = generation(1);
      if (!held || generation(1) != held) ++lost;
      EXPECT_EQ(store_->unpin(lease), Status::kOk);
    }
    stop = true;
    other.join();
    EXPECT_GT(pins, 0U);
    EXPECT_EQ(lost, 0U) << "of " << pins;
  }
};

TEST_F(LeaseTest, EndsWithItsTimeForWhoErases) {
  ASSERT_EQ(set(1, contents(1, 100)), Status::kOk);
  ASSERT_NE(pin(1, 1ns), 0U);
  EXPECT_EQ(erase(1), Status::kOk);
  EXPECT_EQ(store_->stats().leases, 0U);
}

TEST_F(LeaseTest, EndsWithItsTimeForWhoSetsAQuota) {
  ASSERT_EQ(set(1, contents(1, 100)), Status::kOk);
  ASSERT_NE(pin(1, 1ns), 0U);
  ASSERT_EQ(store_->set_quota(1, 0), Status::kOk);
  EXPECT_FALSE(exists(1));
}

TEST_F(LeaseTest, EndsWithItsTimeForWhoReplaces) {
  ASSERT_EQ(set(1, contents(1, 100)), Status::kOk);
  ASSERT_NE(pin(1, 1ns), 0U);
  Job overwrite;
  overwrite.overwrite = true;
  EXPECT_EQ(set(1, contents(2, 100), overwrite), Status::kOk);
  expect_object(1, contents(2, 100));
}

TEST_F(LeaseTest, HoldsAnObjectThatAnotherThreadErases) {
  expect_pinned_beside([&] {
    (void)set(1, contents(1, 100));
    const Status status = erase(1);
    EXPECT_TRUE(status == Status::kOk || status == Status::kBusy);
  });
}

TEST_F(LeaseTest, HoldsAnObjectThatAnotherThreadReplaces) {
  ASSERT_EQ(set(1, contents(1, 100)), Status::kOk);
  expect_pinned_beside([&] {
    Job overwrite;
    overwrite.overwrite = true;
    const Status status = set(1, contents(1, 100), overwrite);
    EXPECT_TRUE(status == Status::kOk || status == Status::kBusy);
  });
}

}  // namespace
}  // namespace nearkv::test
