// A daemon that says nothing: its clients' calls end in time and touch nothing later.
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <span>
#include <vector>

#include "support/daemon_process.hpp"
#include "support/objects.hpp"
#include "support/shared_pages.hpp"

namespace nearkv::test {
namespace {

class SilenceTest : public testing::Test {
 protected:
  void connect() {
    ASSERT_EQ(ObjectStore::connect(daemon_.socket(), options_, &store_), Status::kOk);
    ASSERT_EQ(store_->open_namespace(namespace_of(1), &space_), Status::kOk);
  }

  /// Until it is continued it finishes nothing: all that it is asked for stays in flight.
  void stop() {
    ::kill(daemon_.process(), SIGSTOP);
    int stopped = 0;
    ASSERT_EQ(::waitpid(daemon_.process(), &stopped, WUNTRACED), daemon_.process());
    ASSERT_TRUE(WIFSTOPPED(stopped));
  }
  void go_on() { ::kill(daemon_.process(), SIGCONT); }

  DaemonProcess daemon_;
  ObjectStore::ClientOptions options_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
};

TEST_F(SilenceTest, NobodyWaitsForAStoppedDaemonToCancelAJob) {
  options_.window_bytes = 64 << 20;
  connect();
  ASSERT_NO_FATAL_FAILURE(stop());
  const Bytes data = contents(1, 1 << 20);
  // More than the window carries at a time, so that some jobs have not gone out yet.
  std::vector<JobId> ids(40);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(submit_set(store_.get(), space_, key_of(i), data, &ids[i]), Status::kOk);
  }
  for (const JobId id : ids) EXPECT_EQ(store_->cancel(id), Status::kOk);
  JobResult result;
  // Its bytes may be read yet.
  EXPECT_EQ(store_->wait(ids.front(), std::chrono::milliseconds(50), &result), Status::kTimeout);
  ASSERT_EQ(store_->wait(ids.back(), std::chrono::milliseconds(50), &result), Status::kOk);
  EXPECT_EQ(result.items.at(0), Status::kCancelled);
  ids.pop_back();
  go_on();
  std::size_t cancelled = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(store_->wait(ids[i], std::chrono::seconds(10), &result), Status::kOk);
    const bool is_cancelled = result.items.at(0) == Status::kCancelled;
    EXPECT_TRUE(is_cancelled || result.items.at(0) == Status::kOk);
    EXPECT_EQ(exists(store_.get(), space_, key_of(i)), !is_cancelled);
    if (is_cancelled) ++cancelled;
  }
  EXPECT_GT(cancelled, 0U) << "the daemon was told of none";
  // Nobody has waited for the answers to that, and yet they have come and gone.
  ASSERT_EQ(set(store_.get(), space_, key_of(0), data), Status::kOk);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(exists(store_.get(), space_, key_of(0)));
}

TEST_F(SilenceTest, JobsOfASilentDaemonAreGivenUpAndTouchNothingLater) {
  options_.answer_timeout = std::chrono::milliseconds(100);
  connect();
  const Bytes data = contents(1, 1 << 20);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data), Status::kOk);
  std::span<std::byte> shared;
  ASSERT_EQ(store_->allocate(data.size(), &shared), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop());
  Bytes source = data;
  Bytes target(data.size());
  JobId setting = 0;
  JobId getting = 0;
  JobId getting_shared = 0;
  ASSERT_EQ(submit_set(store_.get(), space_, key_of(2), source, &setting), Status::kOk);
  ASSERT_EQ(submit_get(store_.get(), space_, key_of(1), target, &getting), Status::kOk);
  ASSERT_EQ(submit_get(store_.get(), space_, key_of(1), shared, &getting_shared), Status::kOk);
  JobResult result;
  ASSERT_EQ(store_->wait(setting, std::chrono::milliseconds(300), &result), Status::kTimeout);
  for (const JobId id : {setting, getting, getting_shared}) {
    EXPECT_EQ(store_->cancel(id), Status::kOk);
  }
  for (const JobId id : {setting, getting}) {
    ASSERT_EQ(store_->wait(id, std::chrono::milliseconds(0), &result), Status::kOk);
    EXPECT_EQ(result.items.at(0), Status::kTimeout);
  }
  // The daemon may write there yet.
  EXPECT_EQ(store_->wait(getting_shared, std::chrono::milliseconds(0), &result), Status::kTimeout);
  // Their memory is the caller's again, whatever the daemon does now.
  std::ranges::fill(source, std::byte{9});
  std::ranges::fill(target, std::byte{9});
  go_on();
  ASSERT_EQ(store_->wait(getting_shared, std::chrono::seconds(10), &result), Status::kOk);
  Bytes found;
  // What was given up may have been done all the same, but not with other bytes.
  const Status late = get(store_.get(), space_, key_of(2), &found);
  EXPECT_TRUE(late == Status::kNotFound || found == data);
  EXPECT_EQ(std::ranges::count(target, std::byte{9}), static_cast<std::ptrdiff_t>(target.size()));
  // All of the window is there again.
  for (unsigned i = 0; i < 200; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(3), data), Status::kOk);
  }
}

TEST_F(SilenceTest, WhoWaitsForEverIsAnswered) {
  options_.answer_timeout = options_.patience = std::chrono::milliseconds::max();
  connect();
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 1 << 20)), Status::kOk);
  EXPECT_TRUE(exists(store_.get(), space_, key_of(1)));
  EXPECT_EQ(daemon_.end(SIGTERM), 0);
  daemon_.start();
  EXPECT_EQ(set(store_.get(), space_, key_of(2), contents(1, 1 << 20)), Status::kOk);
}

TEST_F(SilenceTest, CallsOfAStoppedDaemonEndInTimeAndGoOnWithIt) {
  options_.answer_timeout = std::chrono::milliseconds(200);
  connect();
  ASSERT_EQ(store_->watch(100), Status::kOk);
  ASSERT_EQ(set(store_.get(), space_, key_of(0), contents(0, 1000)), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop());
  const Bytes key = key_of(0);
  const Key keys[] = {key};
  Status pinned = Status::kOk;
  EXPECT_EQ(store_->pin(space_, keys, std::chrono::hours(1), std::span(&pinned, 1)), 0U);
  EXPECT_EQ(pinned, Status::kTimeout);
  // Later calls are not even sent: there would soon be no room for more.
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(exists(store_.get(), space_, key));
  std::uint64_t missed = 0;
  EXPECT_TRUE(store_->take_events(&missed).empty());
  ObjectInfo info;
  EXPECT_EQ(store_->describe(space_, key, &info), Status::kTimeout);

  go_on();
  while (store_->describe(space_, key, &info) == Status::kTimeout) ::usleep(1000);
  EXPECT_EQ(info.bytes, 1000U);
  EXPECT_TRUE(info.leased) << "what was asked for is done after all";
  (void)store_->take_events(&missed);
  EXPECT_GT(missed, 0U) << "changes may have been told to nobody";
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(exists(store_.get(), space_, key));
}

TEST_F(SilenceTest, WhoMovesBytesWaitsForAStoppedDaemonOnce) {
  options_.answer_timeout = std::chrono::milliseconds(500);
  connect();
  const Bytes data = contents(1, 1 << 20);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop());
  const auto begin = std::chrono::steady_clock::now();
  Bytes found;
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found, data.size()), Status::kTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, options_.answer_timeout);
  // More than the window carries, were they sent.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(set(store_.get(), space_, key_of(2), data), Status::kTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40 * options_.answer_timeout);
  go_on();
  while (get(store_.get(), space_, key_of(1), &found, data.size()) == Status::kTimeout) {
    ::usleep(1000);
  }
  EXPECT_EQ(found, data);
  EXPECT_FALSE(exists(store_.get(), space_, key_of(2)));
}

/// How many regions a client can register yet.
std::size_t free_regions(ObjectStore* store) {
  const SharedPages pages(4096, F_SEAL_SHRINK);
  std::size_t count = 0;
  while (store->register_memory(pages.memory, pages.fd.get(), 0) == Status::kOk) ++count;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(store->unregister_memory(pages.memory), Status::kOk);
  }
  return count;
}

TEST_F(SilenceTest, JobsStayInFlightWhereMemoryIsRegisteredInVain) {
  options_.answer_timeout = std::chrono::milliseconds(100);
  connect();
  const std::size_t regions = free_regions(store_.get());
  const Bytes data = contents(1, 1 << 20);
  ASSERT_EQ(set(store_.get(), space_, key_of(1), data), Status::kOk);
  std::span<std::byte> shared;
  ASSERT_EQ(store_->allocate(data.size(), &shared), Status::kOk);
  const SharedPages pages(1 << 20, F_SEAL_SHRINK);
  ASSERT_NO_FATAL_FAILURE(stop());
  JobId getting = 0;
  ASSERT_EQ(submit_get(store_.get(), space_, key_of(1), shared, &getting), Status::kOk);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store_->register_memory(pages.memory, pages.fd.get(), 0), Status::kTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40 * options_.answer_timeout);
  EXPECT_TRUE(store_->drain().empty()) << "the daemon may write there yet";

  go_on();
  JobResult result;
  ASSERT_EQ(store_->wait(getting, std::chrono::seconds(10), &result), Status::kOk);
  EXPECT_EQ(result.items.at(0), Status::kOk);
  EXPECT_TRUE(std::ranges::equal(shared, data));
  EXPECT_EQ(free_regions(store_.get()), regions) << "of what was registered late, nobody knows";
}

TEST_F(SilenceTest, MemoryThatIsUnregisteredInVainIsGoneAllTheSame) {
  options_.answer_timeout = std::chrono::milliseconds(100);
  connect();
  const std::size_t regions = free_regions(store_.get());
  const SharedPages pages(1 << 20, F_SEAL_SHRINK);
  ASSERT_EQ(store_->register_memory(pages.memory, pages.fd.get(), 0), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop());
  EXPECT_EQ(store_->unregister_memory(pages.memory), Status::kTimeout);

  go_on();
  Status again = Status::kTimeout;
  while ((again = store_->unregister_memory(pages.memory)) == Status::kTimeout) ::usleep(1000);
  EXPECT_EQ(again, Status::kNotFound);
  Bytes found;
  ASSERT_EQ(set(store_.get(), space_, key_of(1), pages.memory), Status::kOk) << "it is carried now";
  EXPECT_EQ(get(store_.get(), space_, key_of(1), &found), Status::kOk);
  EXPECT_EQ(free_regions(store_.get()), regions);
}

TEST_F(SilenceTest, ADaemonThatHangsAfterItsRestartIsNotWaitedForByEveryCall) {
  options_.patience = std::chrono::milliseconds(100);
  options_.answer_timeout = std::chrono::milliseconds(500);
  connect();
  ASSERT_EQ(set(store_.get(), space_, key_of(1), contents(1, 1000)), Status::kOk);
  EXPECT_EQ(daemon_.end(SIGTERM), 0);
  daemon_.start();
  ASSERT_NO_FATAL_FAILURE(stop());
  const auto begin = std::chrono::steady_clock::now();
  ObjectInfo info;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store_->describe(space_, key_of(1), &info), Status::kTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10 * options_.answer_timeout);
  go_on();
  while (store_->describe(space_, key_of(1), &info) == Status::kTimeout) ::usleep(1000);
  EXPECT_EQ(info.bytes, 1000U);
}

TEST_F(SilenceTest, JobsInFlightEndWithAbortedAndAreReported) {
  connect();
  ASSERT_NO_FATAL_FAILURE(stop());
  const Bytes data = contents(1, 100000);
  std::vector<JobId> ids(20);
  for (JobId& id : ids) {
    ASSERT_EQ(submit_set(store_.get(), space_, key_of(1), data, &id), Status::kOk);
  }
  EXPECT_EQ(daemon_.end(SIGKILL), -SIGKILL);
  std::size_t reported = 0;
  while (reported < ids.size()) {
    pollfd ready{store_->event_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 10000), 1) << "the daemon's death is not told";
    for (const JobResult& result : store_->drain()) {
      EXPECT_EQ(result.items.at(0), Status::kAborted);
      ++reported;
    }
  }
}

}  // namespace
}  // namespace nearkv::test
