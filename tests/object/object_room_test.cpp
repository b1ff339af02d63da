// How the object store makes room: whom it evicts, whom it must keep, and what it moves together.
#include <atomic>
#include <thread>

#include "object/every_store.hpp"

namespace nearkv::test {
namespace {

class ObjectRoomTest : public EveryStoreTest {
 protected:
  /// Leaves every third of so many objects: slabs are a third full.
  void make_sparse(std::uint64_t objects) {
    for (std::uint64_t i = 0; i < objects; ++i) {
      ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 100000)), Status::kOk);
    }
    for (std::uint64_t i = 0; i < objects; ++i) {
      if (i % 3 == 0) continue;
      ASSERT_EQ(erase(store_.get(), space_, key_of(i)), Status::kOk);
    }
  }

  void expect_every_third(std::uint64_t objects) {
    for (std::uint64_t i = 0; i < objects; ++i) {
      Bytes found;
      const Status status = get(store_.get(), space_, key_of(i), &found);
      ASSERT_EQ(status, i % 3 == 0 ? Status::kOk : Status::kNotFound) << i;
      ASSERT_TRUE(status != Status::kOk || found == contents(i, 100000)) << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(In, ObjectRoomTest, store_places(), name_of);

TEST_P(ObjectRoomTest, AFullStoreEvictsWhatWasUsedLongestAgo) {
  if (GetParam() == "stack") GTEST_SKIP() << "what leaves a stack leaves its last tier";
  constexpr std::uint64_t kObjects = 400;  // Of 256 KiB: 100 MiB in 64.
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 256 * kKiB)), Status::kOk) << i;
    if (i >= 10) {
      Bytes found;
      ASSERT_EQ(get(store_.get(), space_, key_of(3), &found), Status::kOk) << i;
    }
  }
  EXPECT_TRUE(exists(store_.get(), space_, key_of(3)));
  EXPECT_FALSE(exists(store_.get(), space_, key_of(0)));
  EXPECT_TRUE(exists(store_.get(), space_, key_of(kObjects - 1)));
  const ObjectStoreStats stats = store_->stats();
  EXPECT_EQ(stats.evictions, kObjects - stats.objects);
  EXPECT_GT(stats.used_bytes, stats.total_bytes * 95 / 100);
}

TEST_P(ObjectRoomTest, LeasedObjectsStayUntilTheLeaseEnds) {
  std::vector<Bytes> names;
  for (std::uint64_t i = 0; i < 400; ++i) names.push_back(key_of(i));
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(set(store_.get(), space_, names[i], contents(i, 256 * kKiB)), Status::kOk);
  }
  const Key held[] = {names[0], names[1], names[399]};
  Status statuses[3];
  const LeaseId lease = store_->pin(space_, held, std::chrono::hours(1), statuses);
  ASSERT_NE(lease, 0U);
  EXPECT_EQ(statuses[0], Status::kOk);
  EXPECT_EQ(statuses[2], Status::kNotFound);
  const Key also[] = {names[2]};
  ASSERT_NE(store_->pin(space_, also, std::chrono::nanoseconds(1), statuses), 0U);
  EXPECT_EQ(erase(store_.get(), space_, names[0]), Status::kBusy);
  for (std::uint64_t i = 4; i < 400; ++i) {
    ASSERT_EQ(set(store_.get(), space_, names[i], contents(i, 256 * kKiB)), Status::kOk);
  }
  EXPECT_TRUE(exists(store_.get(), space_, names[0]));
  EXPECT_TRUE(exists(store_.get(), space_, names[1]));
  EXPECT_FALSE(exists(store_.get(), space_, names[2])) << "its lease was over at once";
  EXPECT_EQ(store_->unpin(lease), Status::kOk);
  EXPECT_EQ(store_->unpin(lease), Status::kNotFound);
  EXPECT_EQ(erase(store_.get(), space_, names[0]), Status::kOk);
  EXPECT_EQ(store_->stats().leases, 0U);
}

TEST_P(ObjectRoomTest, AStoreFullOfLeasedObjectsSaysSoAndLosesNothing) {
  std::vector<LeaseId> leases;
  std::uint64_t stored = 0;
  Status status = Status::kOk;
  for (; status == Status::kOk && stored < 1000; ++stored) {
    const Bytes name = key_of(stored);
    status = set(store_.get(), space_, name, contents(stored, 512 * kKiB));
    if (status != Status::kOk) break;
    const Key keys[] = {name};
    Status held[1];
    leases.push_back(store_->pin(space_, keys, std::chrono::hours(1), held));
  }
  EXPECT_EQ(status, Status::kPoolFull);
  for (std::uint64_t i = 0; i < stored; ++i) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(i), &found), Status::kOk);
    ASSERT_EQ(found, contents(i, 512 * kKiB));
  }
  ASSERT_EQ(store_->unpin(leases[0]), Status::kOk);
  EXPECT_EQ(set(store_.get(), space_, key_of(5000), contents(1, 512 * kKiB)), Status::kOk);
}

TEST_P(ObjectRoomTest, ATenantOverItsQuotaEvictsItsOwnObjects) {
  if (GetParam() == "stack") GTEST_SKIP() << "a stack's quotas are its last tier's";
  constexpr std::size_t kAlmostMiB = (1 << 20) - 100;  // Seals stand behind what is sealed.
  Namespace other = engine();
  other.tenant = 2;
  std::uint32_t others = 0;
  ASSERT_EQ(store_->open_namespace(other, &others), Status::kOk);
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(set(store_.get(), others, key_of(i), contents(i, kAlmostMiB)), Status::kOk);
  }
  ASSERT_EQ(store_->set_quota(1, 4 << 20), Status::kOk);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, kAlmostMiB)), Status::kOk);
  }
  EXPECT_EQ(store_->stats().objects, 8U + 4U);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(exists(store_.get(), others, key_of(i)));
  EXPECT_EQ(set(store_.get(), space_, key_of(99), contents(1, 5 << 20)), Status::kQuota);
  ASSERT_EQ(store_->set_quota(2, 1 << 20), Status::kOk);
  EXPECT_EQ(store_->stats().objects, 1U + 4U);
}

TEST_P(ObjectRoomTest, DefragmentingMovesObjectsTogetherAndLeavesLeasedOnesAlone) {
  make_sparse(120);
  const Bytes held = key_of(60);
  const Key keys[] = {held};
  Status statuses[1];
  const LeaseId lease = store_->pin(space_, keys, std::chrono::hours(1), statuses);
  const std::vector<ObjectInfo> before = store_->list(0, 1000);
  std::uint64_t moved_bytes = 1;
  for (int round = 0; round < 100 && moved_bytes != 0; ++round) {
    ASSERT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  }
  EXPECT_EQ(moved_bytes, 0U) << "it never ends";
  EXPECT_GT(store_->stats().moved, 10U);
  const auto generation = [](const std::vector<ObjectInfo>& infos, const Bytes& key) {
    const auto found = std::ranges::find(infos, key, &ObjectInfo::key);
    return found == infos.end() ? 0 : found->generation;
  };
  EXPECT_EQ(generation(store_->list(0, 1000), held), generation(before, held));
  EXPECT_EQ(store_->unpin(lease), Status::kOk);
  EXPECT_EQ(store_->stats().used_bytes, 40U * 102400U);
  expect_every_third(120);
}

TEST_P(ObjectRoomTest, WhatWasMovedIsEvictedInItsOldTurn) {
  make_sparse(120);
  std::uint64_t moved_bytes = 1;
  while (moved_bytes != 0) {
    ASSERT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  }
  ASSERT_GT(store_->stats().moved, 10U);
  ASSERT_EQ(store_->watch(10000), Status::kOk);
  for (std::uint64_t i = 1000; store_->stats().evictions < 40; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 100000)), Status::kOk);
  }
  std::uint64_t missed = 0;
  std::uint64_t turn = 0;
  for (const StoreEvent& event : store_->take_events(&missed)) {
    if (event.kind != StoreEvent::Kind::kEvicted || turn == 120) continue;
    ASSERT_EQ(event.key, key_of(turn)) << turn;
    turn += 3;
  }
  EXPECT_EQ(turn, 120U);
}

TEST_P(ObjectRoomTest, AChainThatIsTooLongKeepsItsBeginning) {
  if (GetParam() == "stack") GTEST_SKIP() << "what leaves a stack leaves its last tier";
  constexpr std::size_t kAtOnce = 100;
  const Bytes data = contents(1, 256 * kKiB);
  const auto set_chain = [&](const Batch& chain, JobKind kind) {
    for (std::size_t begin = 0; begin < chain.keys.size(); begin += kAtOnce) {
      Batch blocks(kAtOnce);
      Job job = blocks.set_to(space_, data);
      for (std::size_t i = 0; i < kAtOnce; ++i) blocks.items[i].key = chain.keys[begin + i];
      job.kind = kind;
      job.chain = true;
      job.parent = begin == 0 ? Key() : chain.keys[begin - 1];
      if (kind == JobKind::kSetParts) {
        job.parts = 2;
        job.object_bytes = static_cast<std::uint32_t>(data.size());
      }
      JobResult result;
      JobId id = 0;  // Workers have it: no two of them at once.
      ASSERT_EQ(store_->submit(job, &id), Status::kOk);
      ASSERT_EQ(store_->wait(id, std::chrono::seconds(20), &result), Status::kOk);
      for (const Status status : result.items) {
        ASSERT_TRUE(status == Status::kOk || status == Status::kPoolFull);
      }
    }
  };
  const Batch too_long(400);  // 100 MiB in 64.
  const Batch other(kAtOnce, 1000);
  for (const JobKind kind : {JobKind::kSet, JobKind::kSetParts}) {
    SCOPED_TRACE(kind == JobKind::kSet ? "whole" : "in parts");
    ASSERT_NO_FATAL_FAILURE(make("64MiB"));
    ASSERT_NO_FATAL_FAILURE(set_chain(too_long, kind));
    const std::size_t kept = store_->match_prefix(space_, too_long.keys);
    EXPECT_GT(kept, 200U);
    EXPECT_EQ(store_->stats().objects, kept);
    // What comes later makes its end go, and may be as long as there is room.
    ASSERT_NO_FATAL_FAILURE(set_chain(other, kind));
    EXPECT_EQ(store_->match_prefix(space_, other.keys), kAtOnce);
    EXPECT_EQ(store_->match_prefix(space_, too_long.keys), store_->stats().objects - kAtOnce);
    // Once there is room again, it is stored to its end.
    for (const auto& name : other.names) ASSERT_EQ(erase(store_.get(), space_, name), Status::kOk);
    ASSERT_NO_FATAL_FAILURE(set_chain(too_long, kind));
    EXPECT_EQ(store_->match_prefix(space_, too_long.keys), kept);
  }
}

TEST_P(ObjectRoomTest, MovedBlocksStayInTheirChain) {
  constexpr std::uint64_t kBlocks = 60;
  const Batch chain(kBlocks);
  Job job;
  job.chain = true;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    job.parent = i == 0 ? Key() : chain.keys[i - 1];
    ASSERT_EQ(set(store_.get(), space_, chain.names[i], contents(i, 100000), job), Status::kOk);
    ASSERT_EQ(set(store_.get(), space_, key_of(1000 + i), contents(i, 200000)), Status::kOk);
  }
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(erase(store_.get(), space_, key_of(1000 + i)), Status::kOk);
  }
  std::uint64_t moved_bytes = 1;
  while (moved_bytes != 0) {
    ASSERT_EQ(store_->defragment(64 << 20, &moved_bytes), Status::kOk);
  }
  ASSERT_GT(store_->stats().moved, 10U);
  EXPECT_EQ(store_->match_prefix(space_, chain.keys), kBlocks);
  ASSERT_EQ(erase(store_.get(), space_, chain.names[40]), Status::kOk);
  EXPECT_EQ(store_->match_prefix(space_, chain.keys), 40U);
}

TEST_P(ObjectRoomTest, MovesObjectsTogetherByItselfAndThenRests) {
  make("64MiB", 0.04);
  make_sparse(300);
  const auto lost = [&] {
    const ObjectStoreStats stats = store_->stats();
    return static_cast<double>(stats.slab_bytes - stats.object_bytes);
  };
  // It looks after each slab's worth that has come or gone, and wins back whole slabs.
  const double bound = 0.04 * static_cast<double>(store_->stats().slab_bytes) + 2 * (2 << 20);
  for (int wait = 0; wait < 2000 && lost() > bound; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(lost(), bound);
  EXPECT_GT(store_->stats().moved, 10U);
  expect_every_third(300);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::uint64_t moved = store_->stats().moved;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(store_->stats().moved, moved) << "nothing has come or gone";
}

TEST_P(ObjectRoomTest, ReadersAndWritersMayWorkWhileItMovesObjects) {
  make("64MiB", 0.001);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Random random = case_random(t);
      for (int step = 0; step < 600; ++step) {
        const std::uint64_t object = pick(random, 0, 400);
        const std::size_t bytes = 1000 + object % 50 * 4000;
        Bytes found;
        Status status = Status::kOk;
        if (random() % 2 == 0) {
          status = set(store_.get(), space_, key_of(object), contents(object, bytes));
        } else if (random() % 2 == 0) {
          (void)erase(store_.get(), space_, key_of(object));
        } else {
          status = get(store_.get(), space_, key_of(object), &found);
          if (status == Status::kOk && found != contents(object, bytes)) ++wrong;
          if (status == Status::kNotFound) status = Status::kOk;
        }
        if (status != Status::kOk) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nearkv::test
