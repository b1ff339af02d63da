// A server that dies, hangs, refuses or is not there: bounded time, never wrong data, and back
// again.
#include <gtest/gtest.h>

#include <atomic>

#include "server_process.hpp"
#include "support/fault_report.hpp"

namespace nearkv::test {
namespace {

using Clock = std::chrono::steady_clock;

// Far more than any of the times that are set below, far less than for ever.
constexpr std::chrono::seconds kSoon{30};

class RemoteFailureTest : public testing::TestWithParam<std::string> {
 protected:
  ServerProcess server_{GetParam()};
};

constexpr std::size_t kObjectBytes = 200'000;

TEST_P(RemoteFailureTest, KilledInTheMiddleOfBatchesItLosesNothingThatWasAcknowledged) {
  constexpr std::uint64_t kKills = 20;
  constexpr std::size_t kObjects = 60;
  const auto store = server_.connect();
  ASSERT_NE(store, nullptr);
  const std::uint32_t space = open_space(store.get());
  std::uint64_t survived = 0;
  std::uint64_t lost = 0;
  std::uint64_t aborted = 0;
  for (std::uint64_t kill = 0; kill < kKills; ++kill) {
    Batch batch(kObjects, kill * kObjects);
    const std::vector<Bytes> data = contents_of(kObjects, kObjectBytes, kill * kObjects);
    const Job job = batch.set_to(space, data);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(700 * kill));
      (void)server_.end(SIGKILL);
    });
    JobResult result;
    const Clock::time_point begin = Clock::now();
    const Status status = store->run(job, &result);
    killer.join();
    ASSERT_LT(Clock::now() - begin, kSoon);
    ASSERT_TRUE(status == Status::kOk || status == Status::kNoDaemon) << message(status);
    server_.start();
    const Bytes again = key_of(1'000'000 + kill);
    ASSERT_TRUE(eventually(
        [&] { return set(store.get(), space, again, contents(1, 100)) == Status::kOk; }));
    std::uint64_t lost_now = 0;
    for (std::size_t i = 0; status == Status::kOk && i < kObjects; ++i) {
      Bytes found;
      const Status got = get(store.get(), space, batch.names[i], &found);
      const bool whole = got == Status::kOk && found == data[i];
      const bool acknowledged = result.items[i] == Status::kOk;
      ASSERT_TRUE(acknowledged || result.items[i] == Status::kAborted) << message(result.items[i]);
      ASSERT_TRUE(whole || got == Status::kNotFound) << message(got);
      aborted += acknowledged ? 0 : 1;
      lost_now += acknowledged && !whole ? 1 : 0;
    }
    lost += lost_now;
    survived += lost_now == 0 ? 1 : 0;
  }
  report_fault("remote server killed, " + GetParam(), kKills, survived, lost);
  EXPECT_EQ(lost, 0U);
  EXPECT_GT(aborted, 0U) << "no kill came in the middle of a batch";
}

TEST_P(RemoteFailureTest, ASilentServerIsGivenUp) {
  RemoteStoreOptions options = server_.options();
  options.answer_time = std::chrono::milliseconds(300);
  options.connect_time = std::chrono::milliseconds(300);
  const auto store = server_.connect(options);
  ASSERT_NE(store, nullptr);
  const std::uint32_t space = open_space(store.get());
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 5000)), Status::kOk);
  server_.signal(SIGSTOP);
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(set(store.get(), space, key_of(2), contents(2, 5 << 20)), Status::kAborted);
  EXPECT_EQ(set(store.get(), space, key_of(2), contents(2, 5000)), Status::kNoDaemon);
  EXPECT_FALSE(exists(store.get(), space, key_of(1)));
  EXPECT_LT(Clock::now() - begin, kSoon);
  server_.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return exists(store.get(), space, key_of(1)); }));
  Bytes found;
  EXPECT_EQ(get(store.get(), space, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(1, 5000));
}

TEST_P(RemoteFailureTest, ASilentServerIsWaitedForAsLongAsIsAsked) {
  RemoteStoreOptions options = server_.options();
  options.answer_time = options.connect_time = std::chrono::milliseconds::max();
  const auto store = server_.connect(options);
  ASSERT_NE(store, nullptr);
  const std::uint32_t space = open_space(store.get());
  server_.signal(SIGSTOP);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::seconds(11));  // More than by default.
    server_.signal(SIGCONT);
  });
  EXPECT_EQ(set(store.get(), space, key_of(1), contents(1, 5 << 20)), Status::kOk);
  later.join();
  EXPECT_TRUE(exists(store.get(), space, key_of(1)));
}

TEST_P(RemoteFailureTest, WhereNobodyListensItSaysSoAtOnce) {
  const RemoteStoreOptions options = server_.options();
  (void)server_.end(SIGKILL);
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(connect_remote(options, &store, &reason), Status::kNoDaemon);
  EXPECT_NE(reason.find(options.address), std::string::npos) << reason;
  EXPECT_LT(Clock::now() - begin, kSoon);
}

TEST_P(RemoteFailureTest, LeasesEndWithTheServerAndNamespacesDoNot) {
  const auto store = server_.connect();
  ASSERT_NE(store, nullptr);
  const std::uint32_t space = open_space(store.get());
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 5000)), Status::kOk);
  const Bytes name = key_of(1);
  const Key keys[] = {name};
  Status status = Status::kOk;
  const LeaseId lease = store->pin(space, keys, std::chrono::hours(1), std::span(&status, 1));
  ASSERT_NE(lease, 0U);
  (void)server_.end(SIGKILL);
  server_.start();
  ASSERT_TRUE(eventually([&] { return exists(store.get(), space, name); }));
  EXPECT_EQ(store->unpin(lease), Status::kNotFound);
  EXPECT_EQ(erase(store.get(), space, name), Status::kOk);
}

TEST_P(RemoteFailureTest, AllocatedMemoryStaysOverConnections) {
  const auto store = server_.connect();
  ASSERT_NE(store, nullptr);
  const std::uint32_t space = open_space(store.get());
  std::span<std::byte> memory;
  ASSERT_EQ(store->allocate(1 << 20, &memory), Status::kOk);
  const Bytes data = contents(5, 1 << 20);
  std::ranges::copy(data, memory.begin());
  (void)server_.end(SIGKILL);
  server_.start();
  const Bytes key = key_of(5);
  ASSERT_TRUE(eventually([&] { return set(store.get(), space, key, memory) == Status::kOk; }));
  Bytes found;
  ASSERT_EQ(get(store.get(), space, key, &found), Status::kOk);
  EXPECT_EQ(found, data);
}

/// A small tier of this process above the server's.
class RemoteStackTest : public RemoteFailureTest {
 protected:
  void SetUp() override {
    std::vector<std::unique_ptr<ObjectStore>> tiers(2);
    std::string reason;
    ASSERT_EQ(ObjectStore::create("cpu:?memory=16MiB", {}, &tiers[0], &reason), Status::kOk);
    RemoteStoreOptions options = server_.options();
    options.answer_time = std::chrono::milliseconds(500);
    tiers[1] = server_.connect(options);
    ASSERT_NE(tiers[1], nullptr);
    ASSERT_EQ(ObjectStore::stack(std::move(tiers), {}, &stack_, &reason), Status::kOk) << reason;
    space_ = open_space(stack_.get());
  }

  void set_many(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      ASSERT_EQ(set(stack_.get(), space_, key_of(i), contents(i, kObjectBytes)), Status::kOk) << i;
    }
  }

  std::unique_ptr<ObjectStore> stack_;
  std::uint32_t space_ = 0;
};

TEST_P(RemoteStackTest, HoldsMoreThanFitsThisMachine) {
  set_many(0, 200);  // 40 MB above 16 MiB.
  for (std::uint64_t i = 0; i < 200; ++i) {
    Bytes found;
    ASSERT_EQ(get(stack_.get(), space_, key_of(i), &found), Status::kOk) << i;
    ASSERT_EQ(found, contents(i, kObjectBytes)) << i;
  }
  EXPECT_GT(stack_->stats().demotions, 100U);
  EXPECT_EQ(stack_->stats().evictions, 0U);
}

TEST_P(RemoteStackTest, ServesWhatIsHereWhileTheServerIsAway) {
  set_many(0, 200);
  (void)server_.end(SIGKILL);
  std::size_t here = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Bytes found;
    const Status status = get(stack_.get(), space_, key_of(i), &found);
    if (status == Status::kOk) {
      ASSERT_EQ(found, contents(i, kObjectBytes)) << i;
      ++here;
    }
  }
  EXPECT_GT(here, 20U);
  EXPECT_LT(here, 200U);
  // What is new is served too, at the cost of what is old.
  set_many(1000, 100);
  Bytes found;
  ASSERT_EQ(get(stack_.get(), space_, key_of(1099), &found), Status::kOk);
  server_.start();
  ASSERT_TRUE(eventually([&] { return exists(stack_.get(), space_, key_of(0)); }));
  ASSERT_EQ(get(stack_.get(), space_, key_of(0), &found), Status::kOk);
  EXPECT_EQ(found, contents(0, kObjectBytes));
}

TEST_P(RemoteStackTest, NothingIsErasedOrReplacedThatCouldComeBack) {
  set_many(0, 200);  // The first ones are on the server now.
  (void)server_.end(SIGKILL);
  Job overwrite;
  overwrite.overwrite = true;
  EXPECT_NE(erase(stack_.get(), space_, key_of(0)), Status::kOk);
  EXPECT_NE(erase(stack_.get(), space_, key_of(0)), Status::kNotFound);
  EXPECT_NE(set(stack_.get(), space_, key_of(1), contents(77, 5000), overwrite), Status::kOk);
  server_.start();
  ASSERT_TRUE(eventually([&] { return erase(stack_.get(), space_, key_of(0)) == Status::kOk; }));
  ASSERT_EQ(set(stack_.get(), space_, key_of(1), contents(77, 5000), overwrite), Status::kOk);
  set_many(1000, 200);  // Pushes all of them down.
  Bytes found;
  EXPECT_EQ(get(stack_.get(), space_, key_of(0), &found), Status::kNotFound);
  // Evicted it may be, while nobody was below; old it may not.
  const Status status = get(stack_.get(), space_, key_of(1), &found);
  EXPECT_TRUE(status == Status::kNotFound || found == contents(77, 5000)) << message(status);
}

INSTANTIATE_TEST_SUITE_P(Transports, RemoteFailureTest, testing::Values("tcp"));
INSTANTIATE_TEST_SUITE_P(Transports, RemoteStackTest, testing::Values("tcp"));

}  // namespace
}  // namespace nearkv::test
