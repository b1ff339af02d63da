// Memory that runs out in the middle of work: the work fails, and holds nothing afterwards.
#include <new>

#include "object/failing_medium.hpp"

namespace nearkv::test {
namespace {

class NoMemoryTest : public FailingMediumTest {
 protected:
  void SetUp() override { create(256); }

  /// The next access of this kind runs out of memory, and no other.
  void run_out(Access which) {
    fate_ = [this, which](Access access, std::span<const Extent>) {
      if (access != which || ran_out_) return Status::kOk;
      ran_out_ = true;
      throw std::bad_alloc();
    };
  }

  /// Nobody holds any of so many objects.
  void expect_all_erased(std::uint64_t objects) {
    EXPECT_TRUE(ran_out_);
    fate_ = nullptr;
    for (std::uint64_t i = 0; i < objects; ++i) (void)erase(i);
    EXPECT_EQ(store_->stats().objects, 0U);
    EXPECT_EQ(store_->stats().used_bytes, 0U);
    EXPECT_EQ(store_->stats().slab_bytes, 0U);
    EXPECT_EQ(store_->tenants()[0].used_bytes, 0U);
  }

  bool ran_out_ = false;
};

TEST_F(NoMemoryTest, AGetThatRunsOutOfItLeavesTheObjectAndNoUseOfIt) {
  ASSERT_EQ(set(0, contents(0, 100000)), Status::kOk);
  run_out(Access::kRead);
  Bytes found;
  EXPECT_EQ(get(store_.get(), space_, key_of(0), &found), Status::kOutOfMemory);
  expect_object(0, contents(0, 100000));
  expect_all_erased(1);
}

TEST_F(NoMemoryTest, ASetThatRunsOutOfItTakesNoRoomAndTheOthersOfItsJobAreStored) {
  const std::vector<Bytes> data = contents_of(3, 100000);
  Batch batch(3);
  int writes = 0;
  fate_ = [&](Access access, std::span<const Extent>) {
    if (access == Access::kWrite && ++writes == 2) {
      ran_out_ = true;
      throw std::bad_alloc();
    }
    return Status::kOk;
  };
  JobResult result;
  ASSERT_EQ(store_->run(batch.set_to(space_, data), &result), Status::kOk);
  EXPECT_EQ(result.items, (std::vector<Status>{Status::kOk, Status::kOutOfMemory, Status::kOk}));
  expect_object(0, data[0]);
  expect_object(2, data[2]);
  expect_all_erased(3);
}

TEST_F(NoMemoryTest, APartThatRunsOutOfItMayComeAgain) {
  const Bytes data = contents(0, 4 * 8192);
  run_out(Access::kWrite);
  EXPECT_EQ(set_parts(store_.get(), space_, key_of(0), data, 4, 0, 1), Status::kOutOfMemory);
  ASSERT_EQ(set_parts(store_.get(), space_, key_of(0), data, 4, 0, 4), Status::kOk);
  expect_object(0, data);
  expect_all_erased(1);
}

TEST_F(NoMemoryTest, VerifyingThatRunsOutOfItLeavesNoUseOfTheObject) {
  ASSERT_EQ(set(0, contents(0, 100000)), Status::kOk);
  run_out(Access::kRead);
  VerifyProgress progress;
  EXPECT_EQ(store_->verify(0, 1000, &progress), Status::kOutOfMemory);
  EXPECT_EQ(progress.damaged, 0U);
  expect_all_erased(1);
}

class MovingWithoutMemoryTest : public NoMemoryTest, public testing::WithParamInterface<Access> {};

INSTANTIATE_TEST_SUITE_P(For, MovingWithoutMemoryTest,
                         testing::Values(Access::kRead, Access::kWrite));

TEST_P(MovingWithoutMemoryTest, KeepsEveryObjectAndOpensTheSlabsAgain) {
  constexpr std::uint64_t kObjects = 100;
  for (std::uint64_t i = 0; i < kObjects; ++i) ASSERT_EQ(set(i, contents(i, 100000)), Status::kOk);
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    if (i % 3 == 0) continue;
    ASSERT_EQ(erase(i), Status::kOk);
  }
  run_out(GetParam());
  std::uint64_t moved_bytes = 0;
  EXPECT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  EXPECT_TRUE(ran_out_);
  for (std::uint64_t i = 0; i < kObjects; i += 3) expect_object(i, contents(i, 100000));
  EXPECT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  expect_all_erased(kObjects);
}

}  // namespace
}  // namespace nearkv::test
