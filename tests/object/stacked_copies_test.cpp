// An object's copies in several tiers: no older one outlives a newer one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "support/objects.hpp"

namespace nearkv::test {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kOldBytes = 100'000;
constexpr std::size_t kOtherBytes = 500'000;

class StackedCopiesTest : public testing::Test {
 protected:
  void SetUp() override { open({}); }

  void open(StackOptions options) {
    stack_.reset();
    std::vector<std::unique_ptr<ObjectStore>> tiers(2);
    ObjectStore::Options plain;
    plain.defragment_above = 0;
    ASSERT_EQ(ObjectStore::create("cpu:?memory=8MiB", plain, &tiers[0]), Status::kOk);
    ASSERT_EQ(ObjectStore::create("cpu:?memory=64MiB", plain, &tiers[1]), Status::kOk);
    options.patience = milliseconds(100);
    ASSERT_EQ(ObjectStore::stack(std::move(tiers), options, &stack_), Status::kOk);
    ASSERT_EQ(stack_->open_namespace({}, &space_), Status::kOk);
  }

  /// Sets others until the first tier has handed down what there was.
  void push_down() {
    for (int i = 0; i < 30; ++i) {
      ASSERT_EQ(set(stack_.get(), space_, key_of(next_other_++), contents(0, kOtherBytes)),
                Status::kOk);
    }
  }

  /// Leaves no room in the first tier that anybody could make.
  void fill_with_leases() {
    for (int i = 0; i < 14; ++i) {
      const Bytes key = key_of(next_other_++);
      ASSERT_EQ(set(stack_.get(), space_, key, contents(0, kOtherBytes)), Status::kOk);
      ASSERT_NE(lease(key), 0U);
    }
  }

  LeaseId lease(const Bytes& name) {
    const Key keys[] = {name};
    Status status = Status::kOk;
    return stack_->pin(space_, keys, std::chrono::hours(1), std::span(&status, 1));
  }

  Status overwrite(const Bytes& name, const Bytes& data) {
    Job job;
    job.overwrite = true;
    return set(stack_.get(), space_, name, data, job);
  }

  /// What there is now; nothing if there is none.
  Bytes found(const Bytes& name) {
    Bytes data;
    return get(stack_.get(), space_, name, &data, 5 << 20) == Status::kOk ? data : Bytes();
  }

  /// The tiers that hold it.
  std::vector<std::uint32_t> tiers_of(const Bytes& name) {
    std::vector<std::uint32_t> tiers;
    for (const ObjectInfo& info : stack_->list(0, 100'000)) {
      if (info.key == name) tiers.push_back(info.number >> 28);
    }
    return tiers;
  }

  std::unique_ptr<ObjectStore> stack_;
  std::uint32_t space_ = 0;
  std::uint64_t next_other_ = 1000;
  const Bytes key_ = key_of(7);
  const Bytes old_ = contents(1, kOldBytes);
  const Bytes new_ = contents(2, 600'000);
};

using Tiers = std::vector<std::uint32_t>;

TEST_F(StackedCopiesTest, WhatIsLeasedAboveIsNotReplacedBelow) {
  ASSERT_EQ(set(stack_.get(), space_, key_, old_), Status::kOk);
  const LeaseId held = lease(key_);
  fill_with_leases();
  EXPECT_EQ(overwrite(key_, new_), Status::kBusy);
  EXPECT_EQ(tiers_of(key_), Tiers{0});
  EXPECT_TRUE(found(key_) == old_);
  ASSERT_EQ(stack_->unpin(held), Status::kOk);
  EXPECT_EQ(overwrite(key_, new_), Status::kOk);
  EXPECT_EQ(tiers_of(key_), Tiers{1});
  EXPECT_TRUE(found(key_) == new_);
}

TEST_F(StackedCopiesTest, WhatIsLeasedBelowIsNotReplacedAbove) {
  ASSERT_EQ(set(stack_.get(), space_, key_, old_), Status::kOk);
  push_down();
  ASSERT_EQ(tiers_of(key_), Tiers{1});
  const LeaseId held = lease(key_);
  EXPECT_EQ(overwrite(key_, new_), Status::kBusy);
  EXPECT_EQ(tiers_of(key_), Tiers{1});
  EXPECT_TRUE(found(key_) == old_);
  ASSERT_EQ(stack_->unpin(held), Status::kOk);
  EXPECT_EQ(overwrite(key_, new_), Status::kOk);
  EXPECT_EQ(tiers_of(key_), Tiers{0});
  EXPECT_TRUE(found(key_) == new_);
}

TEST_F(StackedCopiesTest, NoCopyOfWhatIsLeasedIsErased) {
  ASSERT_EQ(set(stack_.get(), space_, key_, old_), Status::kOk);
  push_down();
  const LeaseId held = lease(key_);
  for (int use = 0; use < 3; ++use) ASSERT_TRUE(found(key_) == old_);
  ASSERT_EQ(tiers_of(key_), (Tiers{0, 1})) << "asked for often, it is above too";
  EXPECT_EQ(erase(stack_.get(), space_, key_), Status::kBusy);
  EXPECT_EQ(overwrite(key_, new_), Status::kBusy);
  EXPECT_EQ(tiers_of(key_), (Tiers{0, 1}));
  ASSERT_EQ(stack_->unpin(held), Status::kOk);
  EXPECT_EQ(erase(stack_.get(), space_, key_), Status::kOk);
  EXPECT_EQ(tiers_of(key_), Tiers{});
}

TEST_F(StackedCopiesTest, WrittenThroughItIsNotReplacedInOneTierOnly) {
  StackOptions options;
  options.write_through = true;
  open(options);
  ASSERT_EQ(set(stack_.get(), space_, key_, old_), Status::kOk);
  ASSERT_EQ(tiers_of(key_), (Tiers{0, 1}));
  const LeaseId held = lease(key_);
  EXPECT_EQ(overwrite(key_, new_), Status::kBusy);
  EXPECT_EQ(tiers_of(key_), (Tiers{0, 1}));
  EXPECT_TRUE(found(key_) == old_);
  ASSERT_EQ(stack_->unpin(held), Status::kOk);
  EXPECT_EQ(overwrite(key_, new_), Status::kOk);
  EXPECT_EQ(tiers_of(key_), (Tiers{0, 1}));
  EXPECT_TRUE(found(key_) == new_);
}

TEST_F(StackedCopiesTest, PartsThatWaitForRoomReplaceWhatWentDownMeanwhile) {
  StackOptions options;
  options.high_watermark = 1;  // Nothing goes down but for those who wait.
  open(options);
  const Bytes whole = contents(2, 8 * 122 * 4096);
  ASSERT_EQ(set(stack_.get(), space_, key_, contents(1, 1'000'000)), Status::kOk);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(set(stack_.get(), space_, key_of(i), contents(i, 1'000'000)), Status::kOk);
  }
  ASSERT_EQ(tiers_of(key_), Tiers{0});
  const std::span<const std::byte> source = whole;
  ObjectItem item;
  item.key = key_;
  item.source = std::span(&source, 1);
  Job job;
  job.kind = JobKind::kSetParts;
  job.parts = 8;
  job.object_bytes = static_cast<std::uint32_t>(whole.size());
  job.overwrite = true;
  EXPECT_EQ(run_one(stack_.get(), space_, item, job), Status::kOk);
  EXPECT_GT(stack_->stats().demotions, 0U) << "there was room at once";
  EXPECT_EQ(tiers_of(key_), Tiers{0});
  EXPECT_TRUE(found(key_) == whole);
}

TEST_F(StackedCopiesTest, OneLeasedObjectLeavesTheOthersOfItsChainAlone) {
  Batch batch(4);
  Job job = batch.set_to(space_, old_);
  job.chain = true;
  JobResult result;
  ASSERT_EQ(stack_->run(job, &result), Status::kOk);
  push_down();
  ASSERT_NE(lease(batch.names[2]), 0U);
  job = batch.set_to(space_, new_);
  job.chain = true;
  job.overwrite = true;
  ASSERT_EQ(stack_->run(job, &result), Status::kOk);
  EXPECT_EQ(result.items,
            (std::vector<Status>{Status::kOk, Status::kOk, Status::kBusy, Status::kOk}));
  for (std::size_t i = 0; i < batch.names.size(); ++i) {
    EXPECT_TRUE(found(batch.names[i]) == (i == 2 ? old_ : new_)) << i;
    EXPECT_EQ(tiers_of(batch.names[i]), Tiers{i == 2 ? 1U : 0U}) << i;
  }
  EXPECT_EQ(stack_->match_prefix(space_, batch.keys), 4U);
}

TEST_F(StackedCopiesTest, ASetWithoutOverwriteAsksTheFirstTierOnly) {
  ASSERT_EQ(set(stack_.get(), space_, key_, old_), Status::kOk);
  push_down();
  ASSERT_EQ(tiers_of(key_), Tiers{1});
  ASSERT_EQ(set(stack_.get(), space_, key_, new_), Status::kOk);
  EXPECT_TRUE(found(key_) == new_);
  ASSERT_EQ(set(stack_.get(), space_, key_, old_), Status::kOk) << "it counts as set";
  EXPECT_TRUE(found(key_) == new_);
  push_down();
  EXPECT_EQ(tiers_of(key_), Tiers{1});
  EXPECT_TRUE(found(key_) == new_);
}

}  // namespace
}  // namespace nearkv::test
