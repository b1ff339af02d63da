// Objects that come in parts, where a part fails or the object is told to go before it is whole.
#include "object/failing_medium.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint16_t kParts = 8;

bool overlap(std::span<const Extent> some, std::span<const Extent> others) {
  return std::ranges::any_of(some, [&](const Extent& one) {
    return std::ranges::any_of(others, [&](const Extent& other) {
      return one.first_grain < other.first_grain + other.grains &&
             other.first_grain < one.first_grain + one.grains;
    });
  });
}

class PartialTest : public FailingMediumTest {
 protected:
  void SetUp() override { create(256); }

  Status set_parts(std::uint64_t key, std::uint16_t first, std::uint16_t count) {
    return test::set_parts(store_.get(), space_, key_of(key), data_, kParts, first, count);
  }

  /// Has the next write end with `status`, and gives where it was to go.
  std::vector<Extent> fail_a_part(Status status) {
    std::vector<Extent> place;
    fate_ = [&](Access access, std::span<const Extent> extents) {
      if (access != Access::kWrite) return Status::kOk;
      place.assign(extents.begin(), extents.end());
      return status;
    };
    EXPECT_EQ(set_parts(1, 1, 1), status);
    fate_ = nullptr;
    return place;
  }

  /// Fills the store, none of which may touch `place`.
  void expect_untouched(std::span<const Extent> place) {
    fate_ = [&](Access access, std::span<const Extent> extents) {
      EXPECT_FALSE(access != Access::kRead && overlap(extents, place));
      return Status::kOk;
    };
    Job keep;
    keep.evict = false;
    std::uint64_t key = 1000;
    while (set(key, contents(key, data_.size()), keep) == Status::kOk) ++key;
    EXPECT_GT(key, 1000U);
    fate_ = nullptr;
  }

  const Bytes data_ = contents(1, kParts * 8192);
};

TEST_F(PartialTest, ThePlaceOfAPartThatTimedOutIsNotUsedAgain) {
  ASSERT_EQ(set_parts(1, 0, 1), Status::kOk);
  const std::vector<Extent> place = fail_a_part(Status::kTimeout);
  EXPECT_EQ(erase(1), Status::kNotFound) << "it went with the part";
  expect_untouched(place);
}

TEST_F(PartialTest, AnObjectOfWhichAPartTimedOutBeginsAnewElsewhere) {
  ASSERT_EQ(set_parts(1, 0, 1), Status::kOk);
  const std::vector<Extent> place = fail_a_part(Status::kTimeout);
  fate_ = [&](Access access, std::span<const Extent> extents) {
    EXPECT_FALSE(access == Access::kWrite && overlap(extents, place));
    return Status::kOk;
  };
  ASSERT_EQ(set_parts(1, 1, kParts - 1), Status::kOk);
  EXPECT_FALSE(exists(1));
  ASSERT_EQ(set_parts(1, 0, 1), Status::kOk);
  expect_object(1, data_);
}

TEST_F(PartialTest, ThePlaceOfAPartThatMetPoisonIsNotUsedAgain) {
  ASSERT_EQ(set_parts(1, 0, 1), Status::kOk);
  const std::vector<Extent> place = fail_a_part(Status::kPoison);
  EXPECT_EQ(store_->stats().quarantined, 1U);
  expect_untouched(place);
  ASSERT_EQ(reopen(), Status::kOk);
  for (const ObjectInfo& info : store_->list(0, 256)) {
    EXPECT_EQ(test::erase(store_.get(), space_, info.key), Status::kOk);
  }
  expect_untouched(place);
}

TEST_F(PartialTest, APartThatOnlyFailedMayComeAgain) {
  ASSERT_EQ(set_parts(1, 0, 1), Status::kOk);
  fail_a_part(Status::kIoError);
  ASSERT_EQ(set_parts(1, 1, kParts - 1), Status::kOk);
  expect_object(1, data_);
}

TEST_F(PartialTest, ErasingOneGenerationLeavesTheObjectThatIsToReplaceIt) {
  ASSERT_EQ(set(1, contents(2, 4096)), Status::kOk);
  ObjectInfo old;
  ASSERT_EQ(store_->describe(space_, key_of(1), &old), Status::kOk);
  const auto erase_generation = [&](std::uint64_t generation) {
    const Bytes key = key_of(1);
    ObjectItem item;
    item.key = key;
    item.generation = generation;
    Job job;
    job.kind = JobKind::kErase;
    return run_one(store_.get(), space_, item, job);
  };
  ASSERT_EQ(erase(1), Status::kOk);
  ASSERT_EQ(set_parts(1, 0, 4), Status::kOk);
  EXPECT_EQ(erase_generation(old.generation), Status::kNotFound);
  ASSERT_EQ(set_parts(1, 4, 4), Status::kOk);
  expect_object(1, data_);
}

}  // namespace
}  // namespace nearkv::test
