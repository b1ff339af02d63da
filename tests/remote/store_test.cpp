// A store on another machine, used like one of our own: two processes, by TCP.
#include <gtest/gtest.h>

#include <numeric>

#include "server_process.hpp"

namespace nearkv::test {
namespace {

class RemoteStoreTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    store_ = server_.connect();
    ASSERT_NE(store_, nullptr);
    space_ = open_space(store_.get());
  }

  ServerProcess server_{GetParam()};
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

TEST_P(RemoteStoreTest, GivesBackWhatWasSetWhateverItsSize) {
  const std::vector<std::size_t> sizes = {1,       100,     4096,      65535,   300'000,
                                          1 << 20, 2 << 20, 9'999'999, 16 << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(i), contents(i, sizes[i])), Status::kOk) << sizes[i];
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Bytes found;
    ASSERT_EQ(get(store_.get(), space_, key_of(i), &found, sizes[i]), Status::kOk) << sizes[i];
    ASSERT_EQ(found, contents(i, sizes[i])) << sizes[i];
  }
}

TEST_P(RemoteStoreTest, MovesBatchesWithSomeOfThemMissing) {
  constexpr std::size_t kObjects = 200;
  constexpr std::size_t kBytes = 100'000;
  std::vector<Bytes> data;
  for (std::size_t i = 0; i < kObjects; ++i) data.push_back(contents(i, kBytes - i));
  Batch batch(kObjects);
  JobResult result;
  ASSERT_EQ(store_->run(batch.set_to(space_, data), &result), Status::kOk);
  ASSERT_TRUE(result.all_ok());
  for (std::size_t i = 0; i < kObjects; i += 3) {
    ASSERT_EQ(erase(store_.get(), space_, batch.names[i]), Status::kOk);
  }
  // Each into two segments, and all of them by a job that nobody waits for meanwhile.
  std::vector<Bytes> found(kObjects, Bytes(kBytes));
  std::vector<std::array<std::span<std::byte>, 2>> targets(kObjects);
  const Job job = batch.get_into(space_, found);
  for (std::size_t i = 0; i < kObjects; ++i) {
    targets[i] = {std::span(found[i]).first(1000), std::span(found[i]).subspan(1000)};
    batch.items[i].target = targets[i];
  }
  JobId id = 0;
  ASSERT_EQ(store_->submit(job, &id), Status::kOk);
  ASSERT_EQ(store_->wait(id, std::chrono::seconds(60), &result), Status::kOk);
  for (std::size_t i = 0; i < kObjects; ++i) {
    ASSERT_EQ(result.items[i], i % 3 == 0 ? Status::kNotFound : Status::kOk) << i;
    if (i % 3 == 0) continue;
    found[i].resize(result.object_bytes[i]);
    ASSERT_EQ(found[i], data[i]) << i;
  }
}

TEST_P(RemoteStoreTest, CopiesFromAndToAllocatedMemory) {
  std::span<std::byte> memory;
  ASSERT_EQ(store_->allocate(8 << 20, &memory), Status::kOk);
  const Bytes data = contents(7, 4 << 20);
  std::ranges::copy(data, memory.begin());
  // Many pieces of one object, in an order that is not memory's.
  std::vector<std::span<const std::byte>> source;
  Bytes expected;
  for (std::size_t i = 0; i < 200; ++i) {
    source.push_back(memory.subspan((199 - i) * 20'000, 10'000));
    expected.insert(expected.end(), source.back().begin(), source.back().end());
  }
  ObjectItem item;
  const Bytes key = key_of(1);
  item.key = key;
  item.source = source;
  Job setting;
  setting.kind = JobKind::kSet;
  ASSERT_EQ(run_one(store_.get(), space_, item, setting), Status::kOk);
  const std::span<std::byte> target = memory.subspan(4 << 20, expected.size());
  item.target = std::span(&target, 1);
  item.source = {};
  ASSERT_EQ(run_one(store_.get(), space_, item, {}), Status::kOk);
  EXPECT_TRUE(std::ranges::equal(target, expected));
  EXPECT_EQ(store_->release(memory), Status::kOk);
}

TEST_P(RemoteStoreTest, FindsPrefixes) {
  const Batch batch(100);
  const std::vector<Key>& keys = batch.keys;
  ASSERT_NO_FATAL_FAILURE(set_chain(store_.get(), space_, Batch(60), 1000));
  EXPECT_EQ(store_->match_prefix(space_, keys), 60U);
  EXPECT_EQ(store_->exists(space_, keys), 60U);
  store_->touch(space_, keys);
}

TEST_P(RemoteStoreTest, LeasesKeepObjectsUntilTheyEndOrTheirOwnerDoes) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  const Bytes name = key_of(1);
  const Key keys[] = {name};
  Status status = Status::kOk;
  const LeaseId lease = store_->pin(space_, keys, std::chrono::hours(1), std::span(&status, 1));
  ASSERT_NE(lease, 0U);
  const auto other = server_.connect();
  const std::uint32_t other_space = open_space(other.get());
  EXPECT_EQ(erase(other.get(), other_space, name), Status::kBusy);
  EXPECT_EQ(other->unpin(lease), Status::kNotFound);
  ASSERT_EQ(store_->unpin(lease), Status::kOk);
  ASSERT_NE(store_->pin(space_, keys, std::chrono::hours(1), std::span(&status, 1)), 0U);
  store_.reset();
  EXPECT_TRUE(eventually([&] { return erase(other.get(), other_space, name) == Status::kOk; }));
}

TEST_P(RemoteStoreTest, ReadsAndWritesParts) {
  constexpr std::uint16_t kParts = 8;
  constexpr std::size_t kBytes = 8 * 30'000;
  const Bytes data = contents(3, kBytes);
  const Bytes key = key_of(3);
  for (std::uint16_t part = kParts; part-- > 0;) {
    ASSERT_EQ(set_parts(store_.get(), space_, key, data, kParts, part, 1), Status::kOk) << part;
    EXPECT_EQ(exists(store_.get(), space_, key), part == 0);
  }
  Bytes found;
  ASSERT_EQ(get(store_.get(), space_, key, &found, 60'000, 2, 2), Status::kOk);
  EXPECT_TRUE(std::ranges::equal(found, std::span(data).subspan(60'000, 60'000)));
}

TEST_P(RemoteStoreTest, TenantsAreThoseThatTheServerLends) {
  std::uint32_t number = 0;
  Namespace name;
  name.tenant = 3;
  EXPECT_EQ(store_->open_namespace(name, &number), Status::kDenied);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  const std::uint32_t other = open_space(store_.get(), 2);
  EXPECT_FALSE(exists(store_.get(), other, key_of(1)));
  name.tenant = 1;
  name.model = "model";
  name.salt = "salt";
  ASSERT_EQ(store_->open_namespace(name, &number), Status::kOk);
  EXPECT_FALSE(exists(store_.get(), number, key_of(1)));
}

TEST_P(RemoteStoreTest, ManyThreadsShareAConnection) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 50; ++i) {
        const std::uint64_t number = thread * 1000 + i;
        const Bytes data = contents(number, 1000 + i * 3001);
        Bytes found;
        const bool well = set(store_.get(), space_, key_of(number), data) == Status::kOk &&
                          get(store_.get(), space_, key_of(number), &found) == Status::kOk &&
                          found == data;
        wrong += well ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(RemoteStoreTest, AServerThatIsAskedToEndsByItself) {
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 5000)), Status::kOk);
  EXPECT_EQ(server_.finish(), 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, RemoteStoreTest, testing::Values("tcp"));

}  // namespace
}  // namespace nearkv::test
