// The object store from its user's side.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "object/every_store.hpp"

namespace nearkv::test {
namespace {

class ObjectStoreTest : public EveryStoreTest {};

INSTANTIATE_TEST_SUITE_P(In, ObjectStoreTest, store_places(), name_of);

TEST_P(ObjectStoreTest, GivesBackWhatWasSetAtAnySize) {
  const std::size_t sizes[] = {1,    63,        4095,       4096,    4097,
                               6000, 64 * kKiB, 512 * kKiB, 3000001, 16 * 1024 * kKiB};
  for (const std::size_t bytes : sizes) {
    const Bytes data = contents(bytes, bytes);
    ASSERT_EQ(set(store_.get(), space_, key_of(bytes), data), Status::kOk) << bytes;
  }
  for (const std::size_t bytes : sizes) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(bytes), &found, bytes), Status::kOk) << bytes;
    EXPECT_EQ(found, contents(bytes, bytes));
  }
}

TEST_P(ObjectStoreTest, TakesKeysOfAnyLengthAndTellsThemApart) {
  const std::string long_key(1000, 'x');
  const std::vector<std::string> keys = {"a",
                                         std::string("a\0", 2),
                                         long_key,
                                         long_key + "y",
                                         std::string(32, 'x'),
                                         std::string(31, 'x')};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(set(store_.get(), space_, bytes_of(keys[i]), contents(i, 100)), Status::kOk);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, bytes_of(keys[i]), &found), Status::kOk);
    EXPECT_EQ(found, contents(i, 100)) << i;
  }
}

TEST_P(ObjectStoreTest, GathersFromAndScattersToPiecesOfHostMemory) {
  const Bytes data = contents(3, 300000);
  std::vector<std::span<const std::byte>> source;
  for (std::size_t at = 0, step = 1; at < data.size(); at += step, step = step * 3 % 9973 + 1) {
    source.push_back(std::span(data).subspan(at, std::min(step, data.size() - at)));
  }
  Bytes found(data.size());
  std::vector<std::span<std::byte>> target;
  for (std::size_t at = 0; at < found.size(); at += 777) {
    target.push_back(std::span(found).subspan(at, std::min<std::size_t>(777, found.size() - at)));
  }
  const Bytes key = key_of(1);
  ObjectItem item;
  item.key = key;
  item.source = source;
  item.target = target;
  Job setting;
  setting.kind = JobKind::kSet;
  ASSERT_EQ(run_one(store_.get(), space_, item, setting), Status::kOk);
  std::uint32_t bytes = 0;
  ASSERT_EQ(run_one(store_.get(), space_, item, {}, &bytes), Status::kOk);
  EXPECT_EQ(bytes, data.size());
  EXPECT_EQ(found, data);
}

TEST_P(ObjectStoreTest, NamespacesThatDifferInAnythingShareNoKeys) {
  std::vector<Namespace> names(8, engine());
  names[1].tenant = 2;
  names[2].model = "qwen";
  names[3].dtype = "fp8";
  names[4].layout = "BLHNC";
  names[5].rank = 1;
  names[6].group = 1;
  names[7].salt = "secret";
  std::vector<std::uint32_t> numbers(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(store_->open_namespace(names[i], &numbers[i]), Status::kOk);
    ASSERT_EQ(set(store_.get(), numbers[i], key_of(1), contents(i, 5000)), Status::kOk);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), numbers[i], key_of(1), &found), Status::kOk);
    EXPECT_EQ(found, contents(i, 5000)) << i;
    std::uint32_t again = 0;
    ASSERT_EQ(store_->open_namespace(names[i], &again), Status::kOk);
    EXPECT_EQ(again, numbers[i]);
  }
}

TEST_P(ObjectStoreTest, AnExistingObjectStaysUnlessItIsToBeOverwritten) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 9000)), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(2, 5000)), Status::kOk);
  Bytes found;
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(1, 9000));
  Job job;
  job.overwrite = true;
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(2, 5000), job), Status::kOk);
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(2, 5000));
  EXPECT_EQ(store_->stats().objects, 1U);
  EXPECT_EQ(store_->stats().used_bytes, 8192U);
}

TEST_P(ObjectStoreTest, LayersOfAnObjectAreReadAlone) {
  constexpr std::size_t kBytes = 100001;
  const Bytes data = contents(4, kBytes);
  Job job;
  job.parts = 8;
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data, job), Status::kOk);
  const std::size_t part_bytes = (kBytes + 7) / 8;
  for (std::uint16_t part = 0; part < 8; ++part) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(1), &found, part_bytes, part, 1), Status::kOk);
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(part * part_bytes);
    const auto end = data.begin() + static_cast<std::ptrdiff_t>(
                                        std::min<std::size_t>((part + 1) * part_bytes, kBytes));
    EXPECT_EQ(found, Bytes(begin, end)) << part;
  }
  Bytes found;
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, data);
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found, kBytes, 7, 2), Status::kBadArgument);
}

TEST_P(ObjectStoreTest, ErasedObjectsAreGoneAndTheirRoomIsFree) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 50000)), Status::kOk);
  }
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(erase(store_.get(), space_, key_of(i)), Status::kOk);
    EXPECT_EQ(erase(store_.get(), space_, key_of(i)), Status::kNotFound);
    Bytes found;
    EXPECT_EQ(get(store_.get(), space_, key_of(i), &found), Status::kNotFound);
  }
  EXPECT_EQ(store_->stats().used_bytes, 0U);
  EXPECT_EQ(store_->stats().slab_bytes, 0U);
  EXPECT_EQ(store_->stats().objects, 0U);
}

TEST_P(ObjectStoreTest, ASlabCountsWholeFromItsFirstObjectOn) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  const std::uint64_t slab_bytes = store_->stats().slab_bytes;
  EXPECT_GT(slab_bytes, store_->stats().used_bytes);
  ASSERT_EQ(set(store_.get(), space_, key_of(2), contents(2, 5000)), Status::kOk);
  EXPECT_EQ(store_->stats().slab_bytes, slab_bytes);
  ASSERT_EQ(set(store_.get(), space_, key_of(3), contents(3, slab_bytes)), Status::kOk);
  EXPECT_EQ(store_->stats().slab_bytes, 2 * slab_bytes);
}

TEST_P(ObjectStoreTest, TellsHowManyKeysFromTheFirstOnAreThere) {
  const Batch batch(200);
  const std::vector<Key>& keys = batch.keys;
  for (std::uint64_t i = 0; i < 200; ++i) {
    if (i == 150) continue;
    ASSERT_EQ(set(store_.get(), space_, batch.names[i], contents(i, 64)), Status::kOk);
  }
  EXPECT_EQ(store_->exists(space_, keys), 150U);
  const auto present = std::make_unique<bool[]>(keys.size());
  EXPECT_EQ(store_->exists(space_, keys, {present.get(), keys.size()}), 150U);
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(present[i], i != 150) << i;
  EXPECT_EQ(store_->exists(space_, std::span(keys).subspan(150)), 0U);
}

TEST_P(ObjectStoreTest, FindsTheLongestStoredPrefixOfAChain) {
  const Bytes data = contents(1, 256);
  const Batch chain(100);
  const auto set_blocks = [&](std::size_t first, std::size_t count, Key parent) {
    Batch blocks(count, first);
    Job job = blocks.set_to(space_, data);
    job.chain = true;
    job.parent = parent;
    JobResult result;
    ASSERT_EQ(store_->run(job, &result), Status::kOk);
    ASSERT_TRUE(result.all_ok());
  };
  set_blocks(0, 40, {});
  EXPECT_EQ(store_->match_prefix(space_, chain.keys), 40U);
  set_blocks(40, 60, chain.keys[39]);
  EXPECT_EQ(store_->match_prefix(space_, chain.keys), 100U);
  ASSERT_EQ(erase(store_.get(), space_, chain.names[70]), Status::kOk);
  EXPECT_EQ(store_->match_prefix(space_, chain.keys), 70U);
  ASSERT_EQ(erase(store_.get(), space_, chain.names[0]), Status::kOk);
  EXPECT_EQ(store_->match_prefix(space_, chain.keys), 0U);
}

TEST_P(ObjectStoreTest, JobsRunBehindTheCallerAndAreReportedOnce) {
  constexpr std::size_t kJobs = 20;
  constexpr std::size_t kItems = 40;
  std::vector<Bytes> data;
  for (std::uint64_t i = 0; i < kJobs * kItems; ++i) data.push_back(contents(i, 3000 + i));
  std::vector<JobId> ids(kJobs);
  for (std::size_t j = 0; j < kJobs; ++j) {
    Batch batch(kItems, j * kItems);
    const auto of_job = std::span(data).subspan(j * kItems, kItems);
    ASSERT_EQ(store_->submit(batch.set_to(space_, of_job), &ids[j]), Status::kOk);
  }
  std::vector<JobId> reported;
  while (reported.size() < kJobs) {
    pollfd ready{store_->event_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 10000), 1) << "no job was reported for 10 s";
    for (const JobResult& result : store_->drain()) {
      EXPECT_TRUE(result.all_ok());
      EXPECT_EQ(result.items.size(), kItems);
      reported.push_back(result.id);
    }
  }
  std::ranges::sort(reported);
  EXPECT_EQ(reported, ids);
  EXPECT_TRUE(store_->drain().empty());
  for (std::size_t i = 0; i < data.size(); ++i) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(i), &found), Status::kOk);
    EXPECT_EQ(found, data[i]);
  }
}

TEST_P(ObjectStoreTest, ACancelledJobIsWholeInEveryItemThatItBegan) {
  const Bytes data = contents(1, 1 << 20);
  Batch batch(48);
  JobId id = 0;
  ASSERT_EQ(store_->submit(batch.set_to(space_, data), &id), Status::kOk);
  const Status cancelled = store_->cancel(id);
  JobResult result;
  ASSERT_EQ(store_->wait(id, std::chrono::seconds(10), &result), Status::kOk);
  EXPECT_TRUE(cancelled == Status::kOk || cancelled == Status::kNotFound);
  for (std::size_t i = 0; i < batch.names.size(); ++i) {
    Bytes found;
    const Status status = get(store_.get(), space_, batch.names[i], &found);
    if (result.items[i] == Status::kOk) {
      EXPECT_EQ(status, Status::kOk);
      EXPECT_EQ(found, data);
    } else {
      EXPECT_EQ(result.items[i], Status::kCancelled);
      EXPECT_EQ(status, Status::kNotFound);
    }
  }
  EXPECT_EQ(store_->cancel(id), Status::kNotFound);
}

TEST_P(ObjectStoreTest, PartOfABatchMayFail) {
  const Bytes data = contents(1, 5000);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data), Status::kOk);
  Bytes found(5000);
  Bytes small(10);
  const std::span<std::byte> targets[] = {found, found, small};
  const Bytes names[] = {key_of(1), key_of(2), key_of(1)};
  ObjectItem items[3];
  for (std::size_t i = 0; i < 3; ++i) {
    items[i].key = names[i];
    items[i].target = std::span(&targets[i], 1);
  }
  Job job;
  job.namespace_number = space_;
  job.items = items;
  JobResult result;
  ASSERT_EQ(store_->run(job, &result), Status::kOk);
  EXPECT_EQ(result.items, (std::vector{Status::kOk, Status::kNotFound, Status::kBadArgument}));
  EXPECT_EQ(result.object_bytes, (std::vector<std::uint32_t>{5000, 0, 5000}));
  EXPECT_FALSE(result.all_ok());
}

TEST_P(ObjectStoreTest, AGetWithoutATargetAsksForTheSizeAndCountsAsNoUse) {
  Job parts;
  parts.parts = 4;
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 10001), parts), Status::kOk);
  const Bytes names[] = {key_of(1), key_of(1), key_of(1), key_of(2)};
  ObjectItem items[4];
  for (std::size_t i = 0; i < 4; ++i) items[i].key = names[i];
  items[1].first_part = 3;
  items[1].part_count = 1;
  items[2].first_part = 3;
  items[2].part_count = 2;
  Job job;
  job.namespace_number = space_;
  job.items = items;
  JobResult result;
  ASSERT_EQ(store_->run(job, &result), Status::kOk);
  EXPECT_EQ(result.items, (std::vector{Status::kBadArgument, Status::kBadArgument,
                                       Status::kBadArgument, Status::kNotFound}));
  EXPECT_EQ(result.object_bytes, (std::vector<std::uint32_t>{10001, 2498, 0, 0}));
  EXPECT_EQ(store_->stats().hits, 0U);
  EXPECT_EQ(store_->stats().corruptions, 0U);
}

TEST_P(ObjectStoreTest, RefusesJobsThatMakeNoSense) {
  Job job;
  job.namespace_number = 77;
  JobId id = 0;
  EXPECT_EQ(store_->submit(job, &id), Status::kBadArgument) << "a namespace that nobody opened";
  job.namespace_number = space_;
  job.chain = true;
  EXPECT_EQ(store_->submit(job, &id), Status::kBadArgument) << "a chain of gets";
  EXPECT_EQ(set(store_.get(), space_, {}, contents(1, 10)), Status::kBadArgument) << "no key";
  EXPECT_EQ(set(store_.get(), space_, key_of(1), {}), Status::kBadArgument) << "no bytes";
  Job parts;
  parts.parts = 2000;
  EXPECT_EQ(set(store_.get(), space_, key_of(1), contents(1, 4000), parts), Status::kBadArgument);
}

TEST_P(ObjectStoreTest, ListsWhatItHolds) {
  ASSERT_EQ(set(store_.get(), space_, bytes_of("short"), contents(1, 5000)), Status::kOk);
  Job job;
  job.parts = 4;
  ASSERT_EQ(set(store_.get(), space_, bytes_of(std::string(99, 'k')), contents(2, 70000), job),
            Status::kOk);
  const std::vector<NamespaceInfo> namespaces = store_->namespaces();
  ASSERT_EQ(namespaces.size(), 1U);
  EXPECT_EQ(namespaces[0].text, "llama bf16 LBHNC rank 0 group 0");
  const std::vector<ObjectInfo> all = store_->list(0, 100);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].key, bytes_of("short"));
  EXPECT_EQ(all[0].bytes, 5000U);
  EXPECT_TRUE(all[1].key_is_digest);
  EXPECT_EQ(all[1].parts, 4U);
  EXPECT_LT(all[0].generation, all[1].generation);
  EXPECT_EQ(store_->list(0, 1).size(), 1U);
  EXPECT_EQ(store_->list(all[1].number, 100).size(), 1U);
}

TEST_P(ObjectStoreTest, FindsWhatItListsByTheDigestOfALongKeyToo) {
  ASSERT_EQ(set(store_.get(), space_, bytes_of(std::string(200, 'k')), contents(2, 200)),
            Status::kOk);
  const Bytes digest = store_->list(0, 10).front().key;
  ObjectItem item;
  item.key = digest;
  Job job;
  job.kind = JobKind::kExists;
  EXPECT_EQ(run_one(store_.get(), space_, item, job), Status::kNotFound) << "as a key of its own";
  item.key_is_digest = true;
  EXPECT_EQ(run_one(store_.get(), space_, item, job), Status::kOk);
  job.kind = JobKind::kErase;
  EXPECT_EQ(run_one(store_.get(), space_, item, job), Status::kOk);
}

TEST_P(ObjectStoreTest, VerifyingReadsEverything) {
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    Job job;
    job.parts = static_cast<std::uint16_t>(i % 4);
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 20000 * i), job), Status::kOk);
    bytes += 20000 * i;
  }
  VerifyProgress progress;
  do {
    ASSERT_EQ(store_->verify(progress.next, 64, &progress), Status::kOk);
  } while (progress.next != 0);
  EXPECT_EQ(progress.objects, 50U);
  EXPECT_EQ(progress.bytes, bytes);
  EXPECT_EQ(progress.damaged, 0U);
}

TEST_P(ObjectStoreTest, AnObjectThatComesInPartsIsSeenOnceItIsWhole) {
  const Bytes data = contents(5, 8 * 8192);  // Whole blocks, as files of blocks want them.
  constexpr std::uint16_t kOrder[] = {3, 0, 7, 1, 6, 4, 2};
  for (const std::uint16_t part : kOrder) {
    ASSERT_EQ(set_parts(store_.get(), space_, key_of(1), data, 8, part, 1), Status::kOk);
    EXPECT_FALSE(exists(store_.get(), space_, key_of(1)));
  }
  ASSERT_EQ(set_parts(store_.get(), space_, key_of(1), data, 8, 5, 1), Status::kOk);
  Bytes found;
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, data);
  ASSERT_EQ(get(store_.get(), space_, key_of(1), &found, 8192, 6, 1), Status::kOk);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.begin() + 6 * 8192));
  EXPECT_EQ(set_parts(store_.get(), space_, key_of(1), data, 8, 5, 1), Status::kOk)
      << "an object that is there counts as set";
}

TEST_P(ObjectStoreTest, AnObjectOfWhichPartsAreMissingIsForgottenWhenErased) {
  const Bytes data = contents(5, 8 * 8192);
  ASSERT_EQ(set_parts(store_.get(), space_, key_of(1), data, 8, 0, 4), Status::kOk);
  EXPECT_GT(store_->stats().used_bytes, 0U);
  EXPECT_EQ(erase(store_.get(), space_, key_of(1)), Status::kOk);
  EXPECT_EQ(store_->stats().used_bytes, 0U);
  ASSERT_EQ(set_parts(store_.get(), space_, key_of(1), data, 8, 4, 4), Status::kOk);
  EXPECT_FALSE(exists(store_.get(), space_, key_of(1)));
  EXPECT_EQ(set_parts(store_.get(), space_, key_of(1), contents(1, 80), 8, 0, 1),
            Status::kBadArgument)
      << "of another size than the parts that have come";
  EXPECT_EQ(set_parts(store_.get(), space_, key_of(1), data, 8, 7, 2), Status::kBadArgument);
}

TEST_P(ObjectStoreTest, TellsWhatHasChanged) {
  if (GetParam() == "stack") GTEST_SKIP() << "a stack's tiers tell for themselves";
  ASSERT_EQ(store_->watch(1000), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, bytes_of("a"), contents(1, 5000)), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, bytes_of("a"), contents(1, 5000)), Status::kOk);
  ASSERT_EQ(erase(store_.get(), space_, bytes_of("a")), Status::kOk);
  std::uint64_t missed = 99;
  const std::vector<StoreEvent> events = store_->take_events(&missed);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, StoreEvent::Kind::kStored);
  EXPECT_EQ(events[0].bytes, 5000U);
  EXPECT_EQ(events[1].kind, StoreEvent::Kind::kErased);
  EXPECT_EQ(events[1].key, bytes_of("a"));
  EXPECT_EQ(missed, 0U);
  ASSERT_EQ(store_->watch(10), Status::kOk);
  for (std::uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, 512 * kKiB)), Status::kOk);
  }
  const std::vector<StoreEvent> last = store_->take_events(&missed);
  EXPECT_EQ(last.size(), 10U);
  EXPECT_EQ(missed + 10, 300 + store_->stats().evictions);
}

TEST_P(ObjectStoreTest, ThreadsMayShareIt) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random = case_random(t);
      for (int step = 0; step < 400; ++step) {
        const std::uint64_t object = pick(random, 0, 300);
        const std::size_t bytes = 1000 + object * 1000;
        Bytes found;
        switch (pick(random, 0, 3)) {
          case 0:
            if (set(store_.get(), space_, key_of(object), contents(object, bytes)) != Status::kOk) {
              ++wrong;
            }
            break;
          case 1:
            (void)erase(store_.get(), space_, key_of(object));
            break;
          default:
            const Status status = get(store_.get(), space_, key_of(object), &found);
            if (status == Status::kOk ? found != contents(object, bytes)
                                      : status != Status::kNotFound) {
              ++wrong;
            }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nearkv::test
