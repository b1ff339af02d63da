// What a medium that fails for a moment must not cost: objects that were acknowledged.
#include "object/failing_medium.hpp"

#include <future>

namespace nearkv::test {
namespace {

constexpr std::uint64_t kFragmented = 1 << 20;  // The key of an object with a list of extents.

class TransientFailureTest : public FailingMediumTest,
                             public testing::WithParamInterface<Status> {};

INSTANTIATE_TEST_SUITE_P(With, TransientFailureTest,
                         testing::Values(Status::kTimeout, Status::kOutOfMemory, Status::kIoError));

TEST_P(TransientFailureTest, VerifyingEndsWithItAndKeepsEveryObject) {
  create(256);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(set(i, contents(i, 10000)), Status::kOk);
  fate_ = all(Access::kRead, GetParam());
  VerifyProgress progress;
  EXPECT_EQ(store_->verify(0, 1000, &progress), GetParam());
  EXPECT_EQ(progress.damaged, 0U);
  fate_ = nullptr;
  for (std::uint64_t i = 0; i < 10; ++i) expect_object(i, contents(i, 10000));
}

TEST_P(TransientFailureTest, VerifyingGoesOnWithTheObjectThatCouldNotBeRead) {
  create(256);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(set(i, contents(i, 10000)), Status::kOk);
  int reads = 0;
  fate_ = [&](Access, std::span<const Extent>) { return ++reads == 4 ? GetParam() : Status::kOk; };
  VerifyProgress progress;
  EXPECT_EQ(store_->verify(0, 1000, &progress), GetParam());
  EXPECT_EQ(progress.objects, 3U);
  EXPECT_EQ(store_->verify(progress.next, 1000, &progress), Status::kOk);
  EXPECT_EQ(progress.objects, 10U);
  EXPECT_EQ(progress.damaged, 0U);
  EXPECT_EQ(progress.next, 0U);
}

TEST_P(TransientFailureTest, OpeningEndsWithItAndTheNextOpeningFindsEveryObject) {
  create(8192);
  make_fragmented();
  const Bytes data = contents(7, 100 * NKV_OBJECT_GRAIN_BYTES);
  ASSERT_EQ(set(kFragmented, data), Status::kOk);
  fate_ = all(Access::kRead, GetParam());
  EXPECT_EQ(reopen(), GetParam());
  fate_ = nullptr;
  ASSERT_EQ(reopen(), Status::kOk);
  EXPECT_EQ(store_->stats().torn, 0U);
  expect_object(kFragmented, data);
}

TEST_P(TransientFailureTest, WhatIsToBeWipedIsWipedByTheNextOpening) {
  create(8192);
  make_fragmented();
  ASSERT_EQ(store_->set_wipe(1, true), Status::kOk);
  const Bytes secret(100 * NKV_OBJECT_GRAIN_BYTES, std::byte{0x5A});
  ASSERT_EQ(set(kFragmented, secret), Status::kOk);
  fate_ = all(Access::kRead, GetParam());
  EXPECT_EQ(erase(kFragmented), Status::kOk);
  fate_ = nullptr;
  EXPECT_FALSE(exists(kFragmented));
  ASSERT_EQ(reopen(), Status::kOk);
  EXPECT_FALSE(exists(kFragmented));
  const auto bytes = memory_.bytes();
  const auto grain = std::span(secret).first(NKV_OBJECT_GRAIN_BYTES);
  std::size_t left = 0;
  for (std::size_t at = 0; at < bytes.size(); at += grain.size()) {
    if (std::ranges::equal(bytes.subspan(at, grain.size()), grain)) ++left;
  }
  EXPECT_EQ(left, 0U) << "grains with the secret";
}

class BadListTest : public FailingMediumTest {};

TEST_F(BadListTest, AnObjectWhoseListIsPoisonIsGoneAndTheListsGrainStaysOutOfUse) {
  create(8192);
  make_fragmented();
  ASSERT_EQ(set(kFragmented, contents(7, 100 * NKV_OBJECT_GRAIN_BYTES)), Status::kOk);
  const std::uint64_t whole = store_->stats().used_bytes;
  std::vector<Extent> list;
  fate_ = [&](Access access, std::span<const Extent> extents) {
    if (access != Access::kRead) return Status::kOk;
    list.assign(extents.begin(), extents.end());
    return Status::kPoison;
  };
  ASSERT_EQ(reopen(), Status::kOk);
  ASSERT_EQ(list.size(), 1U);
  for (int opening = 0; opening < 2; ++opening) {
    EXPECT_FALSE(exists(kFragmented));
    EXPECT_EQ(store_->stats().torn, 0U);
    EXPECT_EQ(store_->stats().quarantined, 1U);
    EXPECT_EQ(store_->stats().used_bytes, whole - 100 * NKV_OBJECT_GRAIN_BYTES);
    fate_ = nullptr;
    ASSERT_EQ(reopen(), Status::kOk);
  }
  fate_ = [&](Access access, std::span<const Extent> extents) {
    EXPECT_TRUE(access != Access::kWrite ||
                std::ranges::none_of(extents, [&](const Extent& extent) {
                  return list[0].first_grain >= extent.first_grain &&
                         list[0].first_grain - extent.first_grain < extent.grains;
                }));
    return Status::kOk;
  };
  Job keep;
  keep.evict = false;
  for (std::uint64_t i = 1 << 21; set(i, contents(i, 4096), keep) == Status::kOk;) ++i;
}

/// The failing store as one tier of two.
class FailingTierTest : public FailingMediumTest {
 protected:
  void stack_up(bool is_above, const StackOptions& options) {
    create(256);
    std::vector<std::unique_ptr<ObjectStore>> tiers(2);
    tiers[is_above ? 0 : 1] = std::move(store_);
    ASSERT_EQ(ObjectStore::create("cpu:?memory=64MiB", {}, &tiers[is_above ? 1 : 0]), Status::kOk);
    below_ = tiers[1].get();
    ASSERT_EQ(ObjectStore::stack(std::move(tiers), options, &store_), Status::kOk);
    Namespace name;
    name.tenant = 1;
    name.model = "model";
    ASSERT_EQ(store_->open_namespace(name, &space_), Status::kOk);
    ASSERT_EQ(below_->open_namespace(name, &space_below_), Status::kOk);
  }

  ObjectStore* below_ = nullptr;
  std::uint32_t space_below_ = 0;
};

TEST_F(FailingTierTest, VerifyingGoesOnWithTheTierWhoseFirstObjectCouldNotBeRead) {
  StackOptions options;
  options.write_through = true;
  stack_up(/*is_above=*/false, options);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(set(i, contents(i, 10000)), Status::kOk);
  VerifyProgress progress;
  ASSERT_EQ(store_->verify(0, 1U << 20, &progress), Status::kOk);
  ASSERT_EQ(progress.objects, 3U);
  const std::uint32_t below = progress.next;
  ASSERT_NE(below, 0U);
  fate_ = all(Access::kRead, Status::kTimeout);
  EXPECT_EQ(store_->verify(below, 1U << 20, &progress), Status::kTimeout);
  EXPECT_EQ(progress.next, below);
  fate_ = nullptr;
  EXPECT_EQ(store_->verify(progress.next, 1U << 20, &progress), Status::kOk);
  EXPECT_EQ(progress.objects, 6U);
  EXPECT_EQ(progress.next, 0U);
}

TEST_F(FailingTierTest, ALeaseAmidAnOverwriteFindsOneContentsInAllTiers) {
  StackOptions options;
  options.write_through = true;
  stack_up(/*is_above=*/true, options);
  const Bytes old = contents(1, 10000);
  const Bytes data = contents(2, 10000);
  ASSERT_EQ(set(1, old), Status::kOk);
  const Bytes name = key_of(1);
  std::future<LeaseId> lease;
  // Below the new contents are there already, above the old ones still.
  fate_ = [&](Access access, std::span<const Extent>) {
    if (access != Access::kWrite || lease.valid()) return Status::kOk;
    lease = std::async(std::launch::async, [&] {
      const Key keys[] = {name};
      Status status = Status::kOk;
      return store_->pin(space_, keys, std::chrono::hours(1), std::span(&status, 1));
    });
    (void)lease.wait_for(std::chrono::milliseconds(200));
    return Status::kOk;
  };
  Job overwrite;
  overwrite.overwrite = true;
  const Status status = set(1, data, overwrite);
  ASSERT_TRUE(lease.valid());
  EXPECT_NE(lease.get(), 0U);
  fate_ = nullptr;
  expect_object(1, status == Status::kOk ? data : old);
  Bytes found;
  if (get(below_, space_below_, name, &found) == Status::kOk) {
    EXPECT_TRUE(found == (status == Status::kOk ? data : old)) << message(status);
  }
}

}  // namespace
}  // namespace nearkv::test
