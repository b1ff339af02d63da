// Memory that reports poison: what lies there is lost, nothing else is, and nothing is put there
// again.
#include "object/failing_medium.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kRecordsOfAPage = FailingMemory::kPageBytes / sizeof(nkv_object_record);

class PoisonedRecordsTest : public FailingMediumTest,
                            public testing::WithParamInterface<Durability> {
 protected:
  static constexpr std::uint64_t kObjects = 2 * kRecordsOfAPage;

  void SetUp() override {
    create(256, GetParam());
    for (std::uint64_t i = 0; i < kObjects; ++i) ASSERT_EQ(set(i, contents(i, 10000)), Status::kOk);
  }

  void poison_first_records() { memory_.poison_page(pool_->header().objects_at); }

  /// Those of the first page are lost, as far as anybody has looked.
  void expect_others() {
    for (std::uint64_t i = kRecordsOfAPage; i < kObjects; ++i) expect_object(i, contents(i, 10000));
  }
};

INSTANTIATE_TEST_SUITE_P(With, PoisonedRecordsTest,
                         testing::Values(Durability::kProcess, Durability::kPower),
                         [](const auto& of) {
                           return of.param == Durability::kPower ? "WriteBack" : "PageCache";
                         });

TEST_P(PoisonedRecordsTest, VerifyingLosesTheirObjectsAndNoOthers) {
  poison_first_records();
  VerifyProgress progress;
  ASSERT_EQ(store_->verify(0, 1000, &progress), Status::kOk);
  EXPECT_EQ(progress.objects, kObjects);
  EXPECT_EQ(progress.damaged, kRecordsOfAPage);
  EXPECT_EQ(store_->stats().objects, kObjects - kRecordsOfAPage);
  expect_others();
}

TEST_P(PoisonedRecordsTest, EvictionGoesOnBehindThem) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP()
      << "TSan stores a record's state under its own lock, which a SIGBUS would leave held";
#endif
#endif
  poison_first_records();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(set(1000 + i, contents(i, 1 << 20)), Status::kOk) << i;
  }
  expect_object(1019, contents(19, 1 << 20));
}

TEST_P(PoisonedRecordsTest, NewObjectsFindOtherRecords) {
  for (std::uint64_t i = 0; i < kObjects; ++i) ASSERT_EQ(erase(i), Status::kOk);
  poison_first_records();
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < 256; ++i) {
    if (set(1000 + i, contents(i, 4096)) == Status::kPoison) {
      ++refused;
    } else {
      expect_object(1000 + i, contents(i, 4096));
    }
  }
  EXPECT_LE(refused, kRecordsOfAPage) << "each is tried once";
  EXPECT_EQ(store_->stats().objects, 256 - kRecordsOfAPage);
  EXPECT_EQ(store_->stats().used_bytes, store_->stats().objects * NKV_OBJECT_GRAIN_BYTES);
}

TEST_P(PoisonedRecordsTest, ThePoolOpensWithoutThem) {
  poison_first_records();
  ASSERT_EQ(reopen(), Status::kOk);
  EXPECT_EQ(store_->stats().objects, kObjects - kRecordsOfAPage);
  expect_others();
  for (std::uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(set(1000 + i, contents(i, 10000)), Status::kOk) << i;
  }
}

class PoisonedRoomTest : public FailingMediumTest {
 protected:
  /// The page in which an object of one grain lay; it is free.
  std::size_t free_page() {
    EXPECT_EQ(set(0, contents(0, NKV_OBJECT_GRAIN_BYTES)), Status::kOk);
    std::size_t at = 0;
    fate_ = [&](Access, std::span<const Extent> extents) {
      at = std::size_t{extents[0].first_grain} * NKV_OBJECT_GRAIN_BYTES;
      return Status::kOk;
    };
    Bytes found;
    EXPECT_EQ(get(store_.get(), space_, key_of(0), &found), Status::kOk);
    fate_ = nullptr;
    EXPECT_EQ(erase(0), Status::kOk);
    return at;
  }

  void expect_sets(std::uint64_t first) {
    for (std::uint64_t i = first; i < first + 10; ++i) {
      EXPECT_EQ(set(i, contents(i, NKV_OBJECT_GRAIN_BYTES)), Status::kOk) << i;
      expect_object(i, contents(i, NKV_OBJECT_GRAIN_BYTES));
    }
  }
};

TEST_F(PoisonedRoomTest, IsWrittenToOnceAndNeverAgain) {
  create(256);
  memory_.poison_page(free_page());
  EXPECT_EQ(set(1, contents(1, NKV_OBJECT_GRAIN_BYTES)), Status::kPoison);
  EXPECT_FALSE(exists(1));
  EXPECT_EQ(store_->stats().quarantined, 1U);
  expect_sets(10);
  ASSERT_EQ(reopen(), Status::kOk);
  EXPECT_EQ(store_->stats().quarantined, 1U);
  EXPECT_FALSE(exists(1));
  expect_sets(20);
}

TEST_F(PoisonedRoomTest, StaysOutOfUseWhereAnObjectIsMovedTo) {
  create(256);
  constexpr std::uint64_t kObjects = 120;
  for (std::uint64_t i = 0; i < kObjects; ++i) ASSERT_EQ(set(i, contents(i, 100000)), Status::kOk);
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    if (i % 3 == 0) continue;
    ASSERT_EQ(erase(i), Status::kOk);
  }
  std::vector<Extent> bad;
  fate_ = [&](Access access, std::span<const Extent> extents) {
    if (access != Access::kWrite) return Status::kOk;
    if (bad.empty()) {
      bad.assign(extents.begin(), extents.end());
      return Status::kPoison;
    }
    EXPECT_NE(extents[0], bad[0]);
    return Status::kOk;
  };
  std::uint64_t moved_bytes = 0;
  ASSERT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  ASSERT_FALSE(bad.empty());
  EXPECT_EQ(store_->stats().quarantined, 1U);
  for (std::uint64_t i = 0; i < kObjects; i += 3) expect_object(i, contents(i, 100000));
}

}  // namespace
}  // namespace nearkv::test
