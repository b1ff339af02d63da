// Tiers on top of each other.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kObjectBytes = 256 << 10;

class StackedStoreTest : public testing::Test {
 protected:
  void SetUp() override { open(true, {}); }

  void open(bool create, const StackOptions& options, const std::string& upper_bytes = "16MiB") {
    stack_.reset();
    std::vector<std::unique_ptr<ObjectStore>> tiers(2);
    std::string reason;
    ASSERT_EQ(ObjectStore::create("cpu:?memory=" + upper_bytes, {}, &tiers[0], &reason),
              Status::kOk)
        << reason;
    const std::string below = "file:" + file_.path().string() + "?memory=128MiB";
    ASSERT_EQ(create ? ObjectStore::create(below, {}, &tiers[1], &reason)
                     : ObjectStore::open(below, {}, &tiers[1], &reason),
              Status::kOk)
        << reason;
    ASSERT_EQ(ObjectStore::stack(std::move(tiers), options, &stack_, &reason), Status::kOk)
        << reason;
    Namespace name;
    name.model = "model";
    ASSERT_EQ(stack_->open_namespace(name, &space_), Status::kOk);
  }

  void set_many(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      ASSERT_EQ(set(stack_.get(), space_, key_of(i), contents(i, kObjectBytes)), Status::kOk);
    }
  }

  TemporaryFile file_{"stacked_store"};
  std::unique_ptr<ObjectStore> stack_;
  std::uint32_t space_ = 0;
};

TEST_F(StackedStoreTest, HoldsMoreThanItsFirstTierAndLosesNothing) {
  set_many(0, 256);  // 64 MiB above 16.
  for (std::uint64_t i = 0; i < 256; ++i) {
    Bytes found;
    ASSERT_EQ(get(stack_.get(), space_, key_of(i), &found), Status::kOk) << i;
    ASSERT_EQ(found, contents(i, kObjectBytes)) << i;
  }
  EXPECT_GT(stack_->stats().demotions, 150U);
  EXPECT_EQ(stack_->stats().evictions, 0U);
  EXPECT_EQ(stack_->tier_stats().size(), 2U);
}

TEST_F(StackedStoreTest, GrainsOfSmallObjectsDoNotMakeTheFirstTierForget) {
  // A record and 4 KiB each, whatever they hold: the first tier has records for 256.
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(set(stack_.get(), space_, key_of(i), contents(i, 10)), Status::kOk);
  }
  EXPECT_EQ(stack_->stats().evictions, 0U);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(exists(stack_.get(), space_, key_of(i))) << i;
  }
}

TEST_F(StackedStoreTest, SetsOfManyThreadsAtOnceLoseNothing) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kEach = 64;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] { set_many(thread * kEach, kEach); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stack_->stats().evictions, 0U);
  for (std::uint64_t i = 0; i < kThreads * kEach; ++i) {
    ASSERT_TRUE(exists(stack_.get(), space_, key_of(i))) << i;
  }
}

TEST_F(StackedStoreTest, WhatMayAgeKeepsItsAgeBelow) {
  Job job;
  job.age = std::chrono::seconds(1000);
  ASSERT_EQ(set(stack_.get(), space_, key_of(1000), contents(1, kObjectBytes), job), Status::kOk);
  set_many(0, 128);
  ASSERT_GT(stack_->tier_stats()[1].objects, 0U);
  bool found = false;
  for (const ObjectInfo& info : stack_->list(0, 1000)) {
    if (info.expires_s == 0) continue;
    found = true;
    EXPECT_NE(info.number >> 28U, 0U) << "it is still above";
    EXPECT_NEAR(info.expires_s - info.created_s, 1000, 30);
  }
  EXPECT_TRUE(found);
}

TEST_F(StackedStoreTest, WhatAgesByAnotherClockMovesDownWithTheAgeThatIsLeft) {
  using std::chrono::seconds;
  using std::chrono::system_clock;
  std::atomic<int> now_s{1000};
  StackOptions options;
  ObjectStore::Options tier_options;
  options.clock = tier_options.clock = [&] { return system_clock::time_point(seconds(now_s)); };
  std::vector<std::unique_ptr<ObjectStore>> tiers(2);
  ASSERT_EQ(ObjectStore::create("cpu:?memory=16MiB", tier_options, &tiers[0]), Status::kOk);
  ASSERT_EQ(ObjectStore::create("cpu:?memory=128MiB", tier_options, &tiers[1]), Status::kOk);
  ASSERT_EQ(ObjectStore::stack(std::move(tiers), options, &stack_), Status::kOk);
  ASSERT_EQ(stack_->open_namespace({}, &space_), Status::kOk);
  Job job;
  job.age = seconds(5000);
  ASSERT_EQ(set(stack_.get(), space_, key_of(1000), contents(1, kObjectBytes), job), Status::kOk);
  now_s = 3000;
  set_many(0, 128);
  ObjectInfo info;
  ASSERT_EQ(stack_->describe(space_, key_of(1000), &info), Status::kOk);
  EXPECT_NE(info.number >> 28U, 0U) << "it is still above";
  EXPECT_EQ(info.created_s, 3000U);
  EXPECT_EQ(info.expires_s, 6000U);
  stack_.reset();  // It ages by a clock of this test.
}

TEST_F(StackedStoreTest, TellsWhatChangesInEachTier) {
  ASSERT_EQ(stack_->watch(1000), Status::kOk);
  set_many(0, 128);
  std::uint64_t missed = 0;
  std::size_t stored_above = 0;
  std::size_t handed_down = 0;
  for (const StoreEvent& event : stack_->take_events(&missed)) {
    EXPECT_EQ(event.namespace_number, space_);
    if (event.kind != StoreEvent::Kind::kStored) continue;
    ++(event.tier == 0 ? stored_above : handed_down);
  }
  EXPECT_EQ(missed, 0U);
  EXPECT_EQ(stored_above, 128U);
  EXPECT_GT(handed_down, 50U);
}

TEST_F(StackedStoreTest, SaysHowMuchATargetHasToHoldWhereverTheObjectIs) {
  set_many(0, 128);
  for (std::uint64_t i = 0; i < 128; ++i) {
    const Bytes key = key_of(i);
    ObjectItem item;
    item.key = key;
    Job job;
    job.namespace_number = space_;
    job.items = std::span(&item, 1);
    JobResult result;
    ASSERT_EQ(stack_->run(job, &result), Status::kOk);
    EXPECT_EQ(result.items[0], Status::kBadArgument);
    EXPECT_EQ(result.object_bytes[0], kObjectBytes) << i;
  }
}

TEST_F(StackedStoreTest, FindsPrefixesThatLieInSeveralTiers) {
  const Batch chain(200);
  ASSERT_NO_FATAL_FAILURE(set_chain(stack_.get(), space_, chain, kObjectBytes));
  EXPECT_EQ(stack_->match_prefix(space_, chain.keys), 200U);
  EXPECT_EQ(stack_->exists(space_, chain.keys), 200U);
  ASSERT_EQ(erase(stack_.get(), space_, chain.names[120]), Status::kOk);
  EXPECT_EQ(stack_->match_prefix(space_, chain.keys), 120U);
}

TEST_F(StackedStoreTest, WhatIsAskedForAgainComesBackUp) {
  set_many(0, 256);
  Bytes found;
  const std::uint64_t promoted = stack_->stats().promotions;
  for (int use = 0; use < 3; ++use) {
    ASSERT_EQ(get(stack_.get(), space_, key_of(0), &found), Status::kOk);
  }
  EXPECT_EQ(stack_->stats().promotions, promoted + 1);
}

TEST_F(StackedStoreTest, NoOlderCopySurvivesANewerOneOrAnErasure) {
  set_many(0, 256);
  Job overwrite;
  overwrite.overwrite = true;
  for (std::uint64_t i = 0; i < 256; i += 5) {
    ASSERT_EQ(set(stack_.get(), space_, key_of(i), contents(1000 + i, 5000), overwrite),
              Status::kOk);
  }
  for (std::uint64_t i = 1; i < 256; i += 5) {
    ASSERT_EQ(erase(stack_.get(), space_, key_of(i)), Status::kOk);
  }
  set_many(300, 100);  // Pushes all of them down.
  for (std::uint64_t i = 0; i < 256; ++i) {
    Bytes found;
    const Status status = get(stack_.get(), space_, key_of(i), &found);
    ASSERT_EQ(status, i % 5 == 1 ? Status::kNotFound : Status::kOk) << i;
    if (status != Status::kOk) continue;
    ASSERT_EQ(found, i % 5 == 0 ? contents(1000 + i, 5000) : contents(i, kObjectBytes)) << i;
  }
}

TEST_F(StackedStoreTest, KeysLongerThanARecordHoldsMoveDownToo) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(set(stack_.get(), space_, bytes_of(std::string(100, 'k') + std::to_string(i)),
                  contents(i, kObjectBytes)),
              Status::kOk);
  }
  for (std::uint64_t i = 0; i < 200; ++i) {
    Bytes found;
    ASSERT_EQ(
        get(stack_.get(), space_, bytes_of(std::string(100, 'k') + std::to_string(i)), &found),
        Status::kOk)
        << i;
    ASSERT_EQ(found, contents(i, kObjectBytes));
  }
}

TEST_F(StackedStoreTest, WrittenThroughItSurvivesTheLossOfItsFirstTier) {
  StackOptions options;
  options.write_through = true;
  open(true, options);
  set_many(0, 100);
  open(false, options);
  for (std::uint64_t i = 0; i < 100; ++i) {
    Bytes found;
    ASSERT_EQ(get(stack_.get(), space_, key_of(i), &found), Status::kOk) << i;
    ASSERT_EQ(found, contents(i, kObjectBytes));
  }
}

TEST_F(StackedStoreTest, LeasedObjectsStayWhereTheyAre) {
  set_many(0, 10);
  const Batch batch(10);
  std::vector<Status> statuses(batch.keys.size());
  const LeaseId lease = stack_->pin(space_, batch.keys, std::chrono::hours(1), statuses);
  ASSERT_NE(lease, 0U);
  set_many(100, 150);
  std::uint64_t above = 0;
  for (const ObjectInfo& info : stack_->list(0, 100000)) {
    if (info.leased) above += (info.number >> 28) == 0 ? 1 : 0;
  }
  EXPECT_EQ(above, 10U);
  EXPECT_EQ(erase(stack_.get(), space_, batch.names[0]), Status::kBusy);
  EXPECT_EQ(stack_->unpin(lease), Status::kOk);
  EXPECT_EQ(stack_->unpin(lease), Status::kNotFound);
}

TEST_F(StackedStoreTest, ThreadsReadAndWriteWhileObjectsMove) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Random random = case_random(t);
      for (int step = 0; step < 300; ++step) {
        const std::uint64_t object = pick(random, 0, 200);
        Bytes found;
        if (pick(random, 0, 1) == 0) {
          wrong += set(stack_.get(), space_, key_of(object), contents(object, kObjectBytes)) !=
                   Status::kOk;
        } else {
          const Status status = get(stack_.get(), space_, key_of(object), &found);
          wrong += status == Status::kOk ? found != contents(object, kObjectBytes)
                                         : status != Status::kNotFound;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(StackTest, RefusesOptionsThatMakeNoSense) {
  std::unique_ptr<ObjectStore> stack;
  std::string reason;
  EXPECT_EQ(ObjectStore::stack({}, {}, &stack, &reason), Status::kBadArgument);
  for (const auto& [high, low] : {std::pair(0.5, 0.6), std::pair(1.5, 0.5), std::pair(0.9, 0.0)}) {
    std::vector<std::unique_ptr<ObjectStore>> tiers(2);
    for (auto& tier : tiers) {
      ASSERT_EQ(ObjectStore::create("cpu:?memory=4MiB", {}, &tier, &reason), Status::kOk);
    }
    StackOptions options;
    options.high_watermark = high;
    options.low_watermark = low;
    EXPECT_EQ(ObjectStore::stack(std::move(tiers), options, &stack, &reason), Status::kBadArgument);
  }
}

TEST(StackTest, TiersOfWhichNoStackIsMadeKeepWhatTheyHold) {
  std::vector<std::unique_ptr<ObjectStore>> tiers(2);
  ObjectStore::Options few;
  few.max_namespaces = 1;
  ASSERT_EQ(ObjectStore::create("cpu:?memory=4MiB", {}, &tiers[0]), Status::kOk);
  ASSERT_EQ(ObjectStore::create("cpu:?memory=4MiB", few, &tiers[1]), Status::kOk);
  std::uint32_t space = 0;
  std::uint32_t other = 0;
  Namespace name;
  ASSERT_EQ(tiers[0]->open_namespace(name, &space), Status::kOk);
  ASSERT_EQ(set(tiers[0].get(), space, key_of(1), contents(1, 1000)), Status::kOk);
  name.model = "below";
  ASSERT_EQ(tiers[1]->open_namespace(name, &other), Status::kOk);
  ASSERT_EQ(set(tiers[1].get(), other, key_of(2), contents(2, 1000)), Status::kOk);
  StackOptions no_sense;
  no_sense.low_watermark = no_sense.high_watermark;
  std::unique_ptr<ObjectStore> stack;
  std::string reason;
  EXPECT_EQ(ObjectStore::stack(std::move(tiers), no_sense, &stack, &reason), Status::kBadArgument);
  // NOLINTNEXTLINE(bugprone-use-after-move): what is refused stays.
  EXPECT_NE(ObjectStore::stack(std::move(tiers), {}, &stack, &reason), Status::kOk);
  EXPECT_EQ(reason, "a tier has no room for the namespaces of another");
  EXPECT_EQ(stack, nullptr);
  // NOLINTNEXTLINE(bugprone-use-after-move)
  ASSERT_EQ(tiers.size(), 2U);
  EXPECT_TRUE(exists(tiers[0].get(), space, key_of(1)));
  EXPECT_TRUE(exists(tiers[1].get(), other, key_of(2)));
}

}  // namespace
}  // namespace nearkv::test
