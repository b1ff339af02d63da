// Whose objects leave where several tenants share a store.
#include <chrono>

#include "support/objects.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kObjectBytes = 1 << 20;

/// 64 MiB for two tenants, and a clock that a test sets.
class TenantRoomTest : public testing::Test {
 protected:
  void SetUp() override {
    ObjectStore::Options options;
    options.eviction = "lru";
    options.defragment_above = 0;
    options.clock = [this] { return now_; };
    std::string reason;
    ASSERT_EQ(ObjectStore::create("cpu:?memory=64MiB", options, &store_, &reason), Status::kOk)
        << reason;
    for (std::uint16_t tenant = 1; tenant <= 2; ++tenant) {
      Namespace name;
      name.tenant = tenant;
      name.model = "model";
      ASSERT_EQ(store_->open_namespace(name, &spaces_[tenant]), Status::kOk);
    }
  }

  Status set(std::uint16_t tenant, std::uint64_t key, const Job& job = {}) {
    return test::set(store_.get(), spaces_[tenant], key_of(key), contents(key, kObjectBytes), job);
  }

  /// So many objects, from key `first` on.
  void set_all(std::uint16_t tenant, std::uint64_t first, std::uint64_t count,
               const Job& job = {}) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(set(tenant, first + i, job), Status::kOk) << tenant << ": " << i;
    }
  }

  LeaseId pin_all(std::uint16_t tenant, std::uint64_t first, std::uint64_t count) {
    std::vector<Status> statuses(count);
    const LeaseId lease = store_->pin(spaces_[tenant], Batch(count, first).keys, 1h, statuses);
    EXPECT_NE(lease, 0U);
    return lease;
  }

  [[nodiscard]] std::uint64_t objects_of(std::uint16_t tenant) const {
    const std::vector<ObjectInfo> all = store_->list(0, 1000);
    return static_cast<std::uint64_t>(
        std::ranges::count(all, tenant, [](const ObjectInfo& info) { return info.tenant; }));
  }

  std::chrono::system_clock::time_point now_{1'000'000s};
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t spaces_[3] = {};
};

TEST_F(TenantRoomTest, WhoHoldsMostAndLeasesItAllDoesNotLockOthersOutOfTheirOwn) {
  set_all(1, 0, 36);
  (void)pin_all(1, 0, 36);
  set_all(2, 1000, 100);
  EXPECT_EQ(objects_of(1), 36U);
  EXPECT_GT(store_->stats().evictions, 0U);
}

TEST_F(TenantRoomTest, WhatHasExpiredMakesRoomForAnyTenantBeforeAnythingElse) {
  Job aged;
  aged.age = 60s;
  set_all(1, 0, 20, aged);
  Job keep;
  keep.evict = false;
  std::uint64_t mine = 0;
  while (set(2, 1000 + mine, keep) == Status::kOk) ++mine;
  ASSERT_GT(mine, 20U) << "tenant 2 holds most";
  now_ += 61s;
  set_all(2, 2000, 15, keep);
  EXPECT_EQ(objects_of(2), mine + 15);
  EXPECT_EQ(store_->stats().evictions, 0U);
}

TEST_F(TenantRoomTest, WhoIsOverHisQuotaGivesRoomBeforeWhoHoldsMost) {
  set_all(1, 0, 10);
  const LeaseId lease = pin_all(1, 0, 5);
  set_all(2, 1000, 40);
  ASSERT_EQ(store_->set_quota(1, 4 * kObjectBytes), Status::kOk);
  EXPECT_EQ(objects_of(1), 5U) << "over its quota by what is leased";
  Job keep;
  keep.evict = false;
  std::uint64_t filled = 0;
  while (set(2, 2000 + filled, keep) == Status::kOk) ++filled;
  ASSERT_EQ(store_->unpin(lease), Status::kOk);
  ASSERT_EQ(set(2, 5000), Status::kOk);
  EXPECT_EQ(objects_of(1), 4U);
  EXPECT_EQ(objects_of(2), 40 + filled + 1);
}

TEST_F(TenantRoomTest, TheColdestAreThoseThatWouldBeEvictedNext) {
  Job aged;
  aged.age = 60s;
  set_all(1, 0, 2, aged);
  set_all(2, 1000, 40);
  (void)pin_all(2, 1000, 40);
  set_all(1, 10, 10);
  now_ += 61s;
  const std::vector<ObjectInfo> coldest = store_->coldest(5 * kObjectBytes);
  std::vector<Bytes> keys;
  for (const ObjectInfo& info : coldest) keys.push_back(info.key);
  EXPECT_EQ(keys, (std::vector<Bytes>{key_of(0), key_of(1), key_of(10), key_of(11), key_of(12)}));
}

}  // namespace
}  // namespace nearkv::test
