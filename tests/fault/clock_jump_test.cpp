// The time of day jumps: objects stay, leases last, nothing hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "nearkv/object_store.hpp"
#include "support/fault_report.hpp"
#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::seconds;

constexpr std::uint64_t kObjects = 64;
constexpr std::size_t kObjectBytes = 64 << 10;
constexpr std::chrono::sys_days kToday{std::chrono::year{2026} / 11 / 21};

/// A store whose clock is the test's. It has room for all objects, half of which never expire.
class ClockJumpTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.eviction = "lru";
    options_.clock = [this] { return std::chrono::system_clock::time_point(seconds(now_s_)); };
    std::string reason;
    ASSERT_EQ(ObjectStore::create(uri_, options_, &store_, &reason), Status::kOk) << reason;
    open_namespace();
    for (std::uint64_t i = 0; i < kObjects; ++i) {
      Job job;
      if (expires(i)) job.age = hours(1);
      ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, kObjectBytes), job), Status::kOk);
    }
  }

  void open_namespace() {
    Namespace name;
    name.model = "model";
    ASSERT_EQ(store_->open_namespace(name, &space_), Status::kOk);
  }

  void reopen() {
    store_.reset();
    std::string reason;
    ASSERT_EQ(ObjectStore::open(uri_, options_, &store_, &reason), Status::kOk) << reason;
    open_namespace();
  }

  static bool expires(std::uint64_t object) { return object % 2 == 1; }

  [[nodiscard]] std::uint64_t lost() {
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < kObjects; ++i) {
      Bytes found;
      const Status status = get(store_.get(), space_, key_of(i), &found);
      if (status != Status::kOk || found != contents(i, kObjectBytes)) ++lost;
    }
    return lost;
  }

  TemporaryFile file_{"clock_jump"};
  std::string uri_ = "cpu:" + file_.path().string() + "?memory=32MiB&huge=off";
  std::atomic<std::int64_t> now_s_{seconds(kToday.time_since_epoch()).count()};
  ObjectStore::Options options_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

TEST_F(ClockJumpTest, LosesNothingEndsNoLeaseAndHangsNothing) {
  const seconds jumps[] = {days(1),         -days(1),
                           days(3650),      -days(3650),
                           -days(7300),     days(14600),
                           days(365 * 200), -days(365 * 300),
                           seconds(1),      seconds(-kToday.time_since_epoch())};
  std::uint64_t tried = 0;
  std::uint64_t survived = 0;
  std::uint64_t lost_objects = 0;
  for (const bool restarts : {false, true}) {
    for (const seconds jump : jumps) {
      SCOPED_TRACE("a jump by " + std::to_string(jump.count()) + " s");
      const Bytes held = key_of(tried % kObjects);
      const Key keys[] = {held};
      Status status = Status::kOk;
      const LeaseId lease = store_->pin(space_, keys, hours(1), std::span(&status, 1));
      ASSERT_EQ(status, Status::kOk);
      now_s_ += jump.count();
      EXPECT_EQ(erase(store_.get(), space_, held), Status::kBusy) << "the lease has ended";
      EXPECT_EQ(store_->unpin(lease), Status::kOk);
      if (restarts) reopen();
      const std::uint64_t lost_now = lost();
      // It goes on working: stores, moves, and runs jobs that somebody waits for.
      const Bytes fresh = key_of(1000 + tried);
      Job job;
      job.age = seconds(std::numeric_limits<std::int64_t>::max());
      EXPECT_EQ(set(store_.get(), space_, fresh, contents(1000, kObjectBytes), job), Status::kOk);
      std::uint64_t moved_bytes = 0;
      EXPECT_EQ(store_->defragment(1 << 30, &moved_bytes), Status::kOk);
      ObjectItem item;
      item.key = fresh;
      Job erasing;
      erasing.kind = JobKind::kErase;
      erasing.namespace_number = space_;
      erasing.items = std::span(&item, 1);
      JobId id = 0;
      ASSERT_EQ(store_->submit(erasing, &id), Status::kOk);
      JobResult result;
      ASSERT_EQ(store_->wait(id, std::chrono::nanoseconds::max(), &result), Status::kOk);
      EXPECT_TRUE(result.all_ok());
      EXPECT_EQ(lost_now, 0U);
      ++tried;
      survived += lost_now == 0 ? 1 : 0;
      lost_objects += lost_now;
    }
  }
  report_fault("clock jump", tried, survived, lost_objects);
}

TEST_F(ClockJumpTest, WhatNeverExpiresGoesAfterWhatAJumpMadeExpire) {
  now_s_ += seconds(days(3650)).count();
  // More than there is room for, but not more than what has expired made of it.
  const std::uint64_t room_bytes = store_->stats().total_bytes - store_->stats().used_bytes;
  const std::uint64_t more = room_bytes / kObjectBytes + kObjects / 2;
  for (std::uint64_t i = 0; i < more; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(5000 + i), contents(i, kObjectBytes)), Status::kOk);
  }
  EXPECT_EQ(store_->stats().evictions, 0U);
  EXPECT_EQ(store_->stats().expirations, kObjects / 2);
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    EXPECT_EQ(exists(store_.get(), space_, key_of(i)), !expires(i)) << i;
  }
}

TEST_F(ClockJumpTest, WhatAJumpMadeExpireIsYoungAgainAfterAJumpBack) {
  now_s_ += seconds(days(3650)).count();
  now_s_ -= seconds(days(3650)).count();
  std::uint64_t more = 0;
  while (store_->stats().evictions == 0 && more < 10000) {
    ASSERT_EQ(set(store_.get(), space_, key_of(5000 + more++), contents(1, kObjectBytes)),
              Status::kOk);
  }
  EXPECT_EQ(store_->stats().expirations, 0U);
}

TEST_F(ClockJumpTest, ALeaseMayLastLongerThanAnyClockTells) {
  const Bytes held = key_of(0);
  const Key keys[] = {held};
  Status status = Status::kOk;
  const LeaseId lease =
      store_->pin(space_, keys, std::chrono::nanoseconds::max(), std::span(&status, 1));
  EXPECT_EQ(erase(store_.get(), space_, held), Status::kBusy);
  EXPECT_EQ(store_->unpin(lease), Status::kOk);
}

}  // namespace
}  // namespace nearkv::test
