// A daemon that says nothing: its clients' calls end in time and touch nothing later.
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <span>
#include <vector>

#include "server_fixture.hpp"
#include "support/daemon_process.hpp"
#include "support/objects.hpp"
#include "support/shared_pages.hpp"

namespace nearkv::test {
namespace {

/// Until it is continued it finishes nothing: all that it is asked for stays in flight.
void stop(const DaemonProcess& daemon) {
  ::kill(daemon.process(), SIGSTOP);
  int stopped = 0;
  ASSERT_EQ(::waitpid(daemon.process(), &stopped, WUNTRACED), daemon.process());
  ASSERT_TRUE(WIFSTOPPED(stopped));
}

/// A client with a namespace, whose number is `space`.
std::unique_ptr<ObjectStore> client_of(const DaemonProcess& daemon,
                                       const ObjectStore::ClientOptions& options,
                                       std::uint32_t* space) {
  std::unique_ptr<ObjectStore> store;
  EXPECT_EQ(ObjectStore::connect(daemon.socket(), options, &store), Status::kOk);
  EXPECT_EQ(store->open_namespace(namespace_of(1), space), Status::kOk);
  return store;
}

TEST(SilenceTest, NobodyWaitsForAStoppedDaemonToCancelAJob) {
  DaemonProcess daemon;
  const auto store = connect_to(daemon.socket(), 64 << 20);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  const Bytes data = contents(1, 1 << 20);
  // More than the window carries at a time, so that some jobs have not gone out yet.
  std::vector<JobId> ids(40);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(submit_set(store.get(), space, key_of(i), data, &ids[i]), Status::kOk);
  }
  for (const JobId id : ids) EXPECT_EQ(store->cancel(id), Status::kOk);
  JobResult result;
  // Its bytes may be read yet.
  EXPECT_EQ(store->wait(ids.front(), std::chrono::milliseconds(50), &result), Status::kTimeout);
  ASSERT_EQ(store->wait(ids.back(), std::chrono::milliseconds(50), &result), Status::kOk);
  EXPECT_EQ(result.items.at(0), Status::kCancelled);
  ids.pop_back();
  ::kill(daemon.process(), SIGCONT);
  std::size_t cancelled = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(store->wait(ids[i], std::chrono::seconds(10), &result), Status::kOk);
    const bool is_cancelled = result.items.at(0) == Status::kCancelled;
    EXPECT_TRUE(is_cancelled || result.items.at(0) == Status::kOk);
    EXPECT_EQ(exists(store.get(), space, key_of(i)), !is_cancelled);
    if (is_cancelled) ++cancelled;
  }
  EXPECT_GT(cancelled, 0U) << "the daemon was told of none";
  // Nobody has waited for the answers to that, and yet they have come and gone.
  ASSERT_EQ(set(store.get(), space, key_of(0), data), Status::kOk);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(exists(store.get(), space, key_of(0)));
}

TEST(SilenceTest, JobsOfASilentDaemonAreGivenUpAndTouchNothingLater) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.answer_timeout = std::chrono::milliseconds(100);
  std::uint32_t space = 0;
  const auto store = client_of(daemon, options, &space);
  const Bytes data = contents(1, 1 << 20);
  ASSERT_EQ(set(store.get(), space, key_of(1), data), Status::kOk);
  std::span<std::byte> shared;
  ASSERT_EQ(store->allocate(data.size(), &shared), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  Bytes source = data;
  Bytes target(data.size());
  JobId setting = 0;
  JobId getting = 0;
  JobId getting_shared = 0;
  ASSERT_EQ(submit_set(store.get(), space, key_of(2), source, &setting), Status::kOk);
  ASSERT_EQ(submit_get(store.get(), space, key_of(1), target, &getting), Status::kOk);
  ASSERT_EQ(submit_get(store.get(), space, key_of(1), shared, &getting_shared), Status::kOk);
  JobResult result;
  ASSERT_EQ(store->wait(setting, std::chrono::milliseconds(300), &result), Status::kTimeout);
  for (const JobId id : {setting, getting, getting_shared}) {
    EXPECT_EQ(store->cancel(id), Status::kOk);
  }
  for (const JobId id : {setting, getting}) {
    ASSERT_EQ(store->wait(id, std::chrono::milliseconds(0), &result), Status::kOk);
    EXPECT_EQ(result.items.at(0), Status::kTimeout);
  }
  // The daemon may write there yet.
  EXPECT_EQ(store->wait(getting_shared, std::chrono::milliseconds(0), &result), Status::kTimeout);
  // Their memory is the caller's again, whatever the daemon does now.
  std::ranges::fill(source, std::byte{9});
  std::ranges::fill(target, std::byte{9});
  ::kill(daemon.process(), SIGCONT);
  ASSERT_EQ(store->wait(getting_shared, std::chrono::seconds(10), &result), Status::kOk);
  Bytes found;
  // What was given up may have been done all the same, but not with other bytes.
  const Status late = get(store.get(), space, key_of(2), &found);
  EXPECT_TRUE(late == Status::kNotFound || found == data);
  EXPECT_EQ(std::ranges::count(target, std::byte{9}), static_cast<std::ptrdiff_t>(target.size()));
  // All of the window is there again.
  for (unsigned i = 0; i < 200; ++i) {
    ASSERT_EQ(set(store.get(), space, key_of(3), data), Status::kOk);
  }
}

TEST(SilenceTest, CallsOfAStoppedDaemonEndInTimeAndGoOnWithIt) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.answer_timeout = std::chrono::milliseconds(200);
  std::uint32_t space = 0;
  const auto store = client_of(daemon, options, &space);
  ASSERT_EQ(store->watch(100), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(0), contents(0, 1000)), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  const Bytes key = key_of(0);
  const Key keys[] = {key};
  Status pinned = Status::kOk;
  EXPECT_EQ(store->pin(space, keys, std::chrono::hours(1), std::span(&pinned, 1)), 0U);
  EXPECT_EQ(pinned, Status::kTimeout);
  // Later calls are not even sent: there would soon be no room for more.
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(exists(store.get(), space, key));
  std::uint64_t missed = 0;
  EXPECT_TRUE(store->take_events(&missed).empty());
  ObjectInfo info;
  EXPECT_EQ(store->describe(space, key, &info), Status::kTimeout);

  ::kill(daemon.process(), SIGCONT);
  while (store->describe(space, key, &info) == Status::kTimeout) ::usleep(1000);
  EXPECT_EQ(info.bytes, 1000U);
  EXPECT_TRUE(info.leased) << "what was asked for is done after all";
  (void)store->take_events(&missed);
  EXPECT_GT(missed, 0U) << "changes may have been told to nobody";
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(exists(store.get(), space, key));
}

TEST(SilenceTest, WhoMovesBytesWaitsForAStoppedDaemonOnce) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.answer_timeout = std::chrono::milliseconds(500);
  std::uint32_t space = 0;
  const auto store = client_of(daemon, options, &space);
  const Bytes data = contents(1, 1 << 20);
  ASSERT_EQ(set(store.get(), space, key_of(1), data), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  const auto begin = std::chrono::steady_clock::now();
  Bytes found;
  EXPECT_EQ(get(store.get(), space, key_of(1), &found, data.size()), Status::kTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, options.answer_timeout);
  // More than the window carries, were they sent.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(set(store.get(), space, key_of(2), data), Status::kTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40 * options.answer_timeout);
  ::kill(daemon.process(), SIGCONT);
  while (get(store.get(), space, key_of(1), &found, data.size()) == Status::kTimeout) {
    ::usleep(1000);
  }
  EXPECT_EQ(found, data);
  EXPECT_FALSE(exists(store.get(), space, key_of(2)));
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

TEST(SilenceTest, JobsStayInFlightWhereMemoryIsRegisteredInVain) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.answer_timeout = std::chrono::milliseconds(100);
  std::uint32_t space = 0;
  const auto store = client_of(daemon, options, &space);
  const std::size_t regions = free_regions(store.get());
  const Bytes data = contents(1, 1 << 20);
  ASSERT_EQ(set(store.get(), space, key_of(1), data), Status::kOk);
  std::span<std::byte> shared;
  ASSERT_EQ(store->allocate(data.size(), &shared), Status::kOk);
  const SharedPages pages(1 << 20, F_SEAL_SHRINK);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  JobId getting = 0;
  ASSERT_EQ(submit_get(store.get(), space, key_of(1), shared, &getting), Status::kOk);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store->register_memory(pages.memory, pages.fd.get(), 0), Status::kTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40 * options.answer_timeout);
  EXPECT_TRUE(store->drain().empty()) << "the daemon may write there yet";

  ::kill(daemon.process(), SIGCONT);
  JobResult result;
  ASSERT_EQ(store->wait(getting, std::chrono::seconds(10), &result), Status::kOk);
  EXPECT_EQ(result.items.at(0), Status::kOk);
  EXPECT_TRUE(std::ranges::equal(shared, data));
  EXPECT_EQ(free_regions(store.get()), regions) << "of what was registered late, nobody knows";
}

TEST(SilenceTest, MemoryThatIsUnregisteredInVainIsGoneAllTheSame) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.answer_timeout = std::chrono::milliseconds(100);
  std::uint32_t space = 0;
  const auto store = client_of(daemon, options, &space);
  const std::size_t regions = free_regions(store.get());
  const SharedPages pages(1 << 20, F_SEAL_SHRINK);
  ASSERT_EQ(store->register_memory(pages.memory, pages.fd.get(), 0), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  EXPECT_EQ(store->unregister_memory(pages.memory), Status::kTimeout);

  ::kill(daemon.process(), SIGCONT);
  Status again = Status::kTimeout;
  while ((again = store->unregister_memory(pages.memory)) == Status::kTimeout) ::usleep(1000);
  EXPECT_EQ(again, Status::kNotFound);
  Bytes found;
  ASSERT_EQ(set(store.get(), space, key_of(1), pages.memory), Status::kOk) << "it is carried now";
  EXPECT_EQ(get(store.get(), space, key_of(1), &found), Status::kOk);
  EXPECT_EQ(free_regions(store.get()), regions);
}

TEST(SilenceTest, ADaemonThatHangsAfterItsRestartIsNotWaitedForByEveryCall) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.patience = std::chrono::milliseconds(100);
  options.answer_timeout = std::chrono::milliseconds(500);
  std::uint32_t space = 0;
  const auto store = client_of(daemon, options, &space);
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 1000)), Status::kOk);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
  daemon.start();
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  const auto begin = std::chrono::steady_clock::now();
  ObjectInfo info;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store->describe(space, key_of(1), &info), Status::kTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10 * options.answer_timeout);
  ::kill(daemon.process(), SIGCONT);
  while (store->describe(space, key_of(1), &info) == Status::kTimeout) ::usleep(1000);
  EXPECT_EQ(info.bytes, 1000U);
}

TEST(SilenceTest, JobsInFlightEndWithAbortedAndAreReported) {
  DaemonProcess daemon;
  const auto store = connect_to(daemon.socket(), 64 << 20);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_NO_FATAL_FAILURE(stop(daemon));
  const Bytes data = contents(1, 100000);
  std::vector<JobId> ids(20);
  for (JobId& id : ids) {
    ASSERT_EQ(submit_set(store.get(), space, key_of(1), data, &id), Status::kOk);
  }
  EXPECT_EQ(daemon.end(SIGKILL), -SIGKILL);
  std::size_t reported = 0;
  while (reported < ids.size()) {
    pollfd ready{store->event_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 10000), 1) << "the daemon's death is not told";
    for (const JobResult& result : store->drain()) {
      EXPECT_EQ(result.items.at(0), Status::kAborted);
      ++reported;
    }
  }
}

}  // namespace
}  // namespace nearkv::test
