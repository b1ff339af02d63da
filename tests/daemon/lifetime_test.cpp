// Clients and daemons that die, at any moment, and what the others see of it.
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "server_fixture.hpp"
#include "support/daemon_process.hpp"
#include "support/fault_report.hpp"
#include "support/objects.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kObjectBytes = 50000;

/// The objects of one client: what object `number` holds follows from the client and the number.
Bytes data_of(std::uint64_t client, std::uint64_t number) {
  return contents(client * 1000003 + number, kObjectBytes + number % 1000);
}

/// A client process: sets, gets and erases its own objects until it is killed, and stops at once
/// if it is given anything that is not what it stored.
[[noreturn]] void work(const std::string& socket, std::uint64_t client, std::atomic<int>* wrong) {
  std::unique_ptr<ObjectStore> store;
  if (ObjectStore::connect(socket, {}, &store) != Status::kOk) ::_exit(1);
  std::uint32_t space = 0;
  if (store->open_namespace(namespace_of(1, "client " + std::to_string(client)), &space) !=
      Status::kOk) {
    ::_exit(2);
  }
  Random random = case_random(client);
  while (true) {
    const std::uint64_t number = pick(random, 0, 40);
    const Bytes key = key_of(number);
    const Key keys[] = {key};
    Bytes found;
    Status status = Status::kOk;
    switch (pick(random, 0, 5)) {
      case 0:
      case 1:
        (void)set(store.get(), space, key, data_of(client, number));
        break;
      case 2:
        (void)erase(store.get(), space, key);
        break;
      case 3:
        (void)store->pin(space, keys, std::chrono::milliseconds(20), std::span(&status, 1));
        break;
      default:
        status = get(store.get(), space, key, &found);
        if (status == Status::kOk && found != data_of(client, number)) ++*wrong;
        if (status != Status::kOk && status != Status::kNotFound) ++*wrong;
    }
  }
}

/// A counter that child processes share.
class SharedCounter {
 public:
  SharedCounter()
      : counter_(new(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0)) {}
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { ::munmap(counter_, sizeof(*counter_)); }

  [[nodiscard]] std::atomic<int>* get() const { return counter_; }

 private:
  std::atomic<int>* counter_;
};

TEST(LifetimeTest, ClientsKilledAtAnyMomentHarmNobody) {
  DaemonProcess daemon;
  const SharedCounter wrong;
  // A bystander who checks its objects throughout.
  const auto store = connect_to(daemon.socket());
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(2, "bystander"), &space), Status::kOk);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(set(store.get(), space, key_of(i), data_of(99, i)), Status::kOk);
  }
  std::vector<Status> pinned(20, Status::kInternal);
  ASSERT_NE(store->pin(space, Batch(20).keys, std::chrono::hours(1), pinned), 0U);
  constexpr std::uint64_t kRounds = 40;
  constexpr std::uint64_t kClients = 3;
  std::uint64_t survived = 0;
  Random random = case_random(1);
  for (std::uint64_t kill = 0; kill < kRounds; ++kill) {
    std::vector<pid_t> children;
    for (std::uint64_t c = 0; c < kClients; ++c) {
      const pid_t child = ::fork();
      if (child == 0) work(daemon.socket(), kill * kClients + c, wrong.get());
      children.push_back(child);
    }
    for (const pid_t child : children) {
      ::usleep(pick(random, 500, 15000));
      ::kill(child, SIGKILL);
      const std::uint64_t i = pick(random, 0, 19);
      Bytes found;
      const Status status = get(store.get(), space, key_of(i), &found);
      EXPECT_EQ(status, Status::kOk);
      EXPECT_EQ(found, data_of(99, i));
      if (status == Status::kOk && found == data_of(99, i)) ++survived;
    }
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status)) << "a client ended by itself: " << WEXITSTATUS(status);
    }
  }
  EXPECT_EQ(*wrong.get(), 0);
  // All leases but the bystander's end, and the last clients are gone.
  EXPECT_TRUE(eventually([&] { return store->stats().leases == 1; }));
  VerifyProgress progress;
  std::uint32_t next = 0;
  do {
    ASSERT_EQ(store->verify(next, 1000, &progress), Status::kOk);
    next = progress.next;
  } while (next != 0);
  EXPECT_EQ(progress.damaged, 0U);
  const auto wrongly_read = static_cast<std::uint64_t>(*wrong.get());
  report_fault("client dies", kRounds * kClients, survived,
               progress.damaged + wrongly_read + kRounds * kClients - survived);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
}

TEST(LifetimeTest, AThousandClientsConnectAndDie) {
  DaemonProcess daemon;
  const auto store = connect_to(daemon.socket());
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(1), data_of(1, 1)), Status::kOk);
  constexpr int kClients = 1000;
  constexpr int kAtATime = 50;
  std::uint64_t survived = 0;
  for (int begun = 0; begun < kClients; begun += kAtATime) {
    std::vector<pid_t> children;
    for (int i = 0; i < kAtATime; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        std::unique_ptr<ObjectStore> own;
        ObjectStore::ClientOptions options;
        options.window_bytes = 1 << 20;
        if (ObjectStore::connect(daemon.socket(), options, &own) != Status::kOk) ::_exit(1);
        std::uint32_t number = 0;
        const bool served = own->open_namespace(namespace_of(1), &number) == Status::kOk &&
                            exists(own.get(), number, key_of(1));
        if (!served) ::_exit(2);
        ::kill(::getpid(), SIGKILL);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "was not served: " << WEXITSTATUS(status);
      if (WIFSIGNALED(status)) ++survived;
    }
  }
  expect_nothing_left_of_clients(daemon.process());
  Bytes found;
  EXPECT_EQ(get(store.get(), space, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, data_of(1, 1));
  report_fault("1,000 clients connect and die", kClients, survived, found == data_of(1, 1) ? 0 : 1);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
}

/// What the clients of EndTest have been promised.
struct Promised {
  std::mutex mutex;
  std::map<std::uint64_t, std::set<std::uint64_t>> objects;  ///< Of each client.
  std::atomic<std::uint64_t> sets{0};
};

class EndTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(By, EndTest, testing::Values(SIGKILL, SIGTERM),
                         [](const auto& end) { return end.param == SIGKILL ? "Kill" : "Term"; });

TEST_P(EndTest, OfADaemonUnderLoadIsReattachedToAndLosesNothingThatItPromised) {
  DaemonProcess daemon("scrub_rate = 0");
  constexpr int kClients = 3;
  constexpr int kKills = 12;
  Promised promised;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> aborted{0};
  std::vector<std::thread> threads;
  for (std::uint64_t c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      const auto store = connect_to(daemon.socket(), 8 << 20);
      std::uint32_t space = 0;
      if (store->open_namespace(namespace_of(1, "client " + std::to_string(c)), &space) !=
          Status::kOk) {
        ++wrong;
        return;
      }
      Random random = case_random(c);
      for (std::uint64_t number = 0; !stop; number = (number + 1) % 250) {
        const Status status = set(store.get(), space, key_of(number), data_of(c, number));
        if (status == Status::kOk) {
          const std::scoped_lock lock(promised.mutex);
          promised.objects[c].insert(number);
          ++promised.sets;
        } else if (status == Status::kAborted) {
          ++aborted;
        } else {
          ++wrong;
        }
        const std::uint64_t other = pick(random, 0, 249);
        Bytes found;
        const Status got = get(store.get(), space, key_of(other), &found);
        if (got == Status::kOk && found != data_of(c, other)) ++wrong;
        const std::scoped_lock lock(promised.mutex);
        if (got == Status::kNotFound && promised.objects[c].contains(other)) ++wrong;
      }
    });
  }
  Random random = case_random(100);
  for (int kill = 0; kill < kKills; ++kill) {
    // However slow this machine is, each daemon promises something.
    const std::uint64_t before = promised.sets;
    EXPECT_TRUE(eventually([&] { return promised.sets >= before + 5; }));
    ::usleep(pick(random, 20000, 120000));
    EXPECT_EQ(daemon.end(GetParam()), GetParam() == SIGKILL ? -SIGKILL : 0);
    ::usleep(pick(random, 0, 30000));
    daemon.start();
  }
  ::usleep(100000);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  // Everything promised is there, whole.
  const auto store = connect_to(daemon.socket());
  std::size_t checked = 0;
  std::uint64_t lost = 0;
  for (const auto& [client, numbers] : promised.objects) {
    std::uint32_t space = 0;
    ASSERT_EQ(store->open_namespace(namespace_of(1, "client " + std::to_string(client)), &space),
              Status::kOk);
    for (const std::uint64_t number : numbers) {
      Bytes found;
      EXPECT_EQ(get(store.get(), space, key_of(number), &found), Status::kOk) << number;
      EXPECT_EQ(found, data_of(client, number));
      if (found != data_of(client, number)) ++lost;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50U);
  report_fault(GetParam() == SIGKILL ? "daemon killed under load" : "daemon stopped under load",
               kKills, wrong == 0 && lost == 0 ? kKills : 0, lost);
  RecordProperty("objects_checked", static_cast<int>(checked));
  RecordProperty("jobs_aborted", static_cast<int>(aborted.load()));
}

TEST(LifetimeTest, ARestartKeepsNamespacesAndMemoryAndEndsLeases) {
  DaemonProcess daemon;
  const auto store = connect_to(daemon.socket(), 16 << 20);
  std::span<std::byte> memory;
  ASSERT_EQ(store->allocate(1 << 20, &memory), Status::kOk);
  std::uint32_t spaces[2];
  ASSERT_EQ(store->open_namespace(namespace_of(1, "a"), &spaces[0]), Status::kOk);
  ASSERT_EQ(store->open_namespace(namespace_of(2, "b"), &spaces[1]), Status::kOk);
  ASSERT_EQ(set(store.get(), spaces[1], key_of(1), data_of(1, 1)), Status::kOk);
  const Bytes key = key_of(1);
  const Key keys[] = {key};
  Status pinned = Status::kInternal;
  const LeaseId lease = store->pin(spaces[1], keys, std::chrono::hours(1), std::span(&pinned, 1));
  ASSERT_NE(lease, 0U);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
  daemon.start();
  Bytes found;
  EXPECT_EQ(get(store.get(), spaces[1], key, &found), Status::kOk);
  EXPECT_EQ(found, data_of(1, 1));
  EXPECT_EQ(get(store.get(), spaces[0], key, &found), Status::kNotFound);
  EXPECT_EQ(store->unpin(lease), Status::kNotFound);
  EXPECT_EQ(erase(store.get(), spaces[1], key), Status::kOk);
  // Memory of the first window, through the second.
  const Bytes data = contents(3, memory.size());
  std::ranges::copy(data, memory.begin());
  EXPECT_EQ(set(store.get(), spaces[0], key, memory), Status::kOk);
  EXPECT_EQ(get(store.get(), spaces[0], key, &found, memory.size()), Status::kOk);
  EXPECT_EQ(found, data);
}

TEST(LifetimeTest, WithoutADaemonCallsEndWithinTheirPatienceAndThenAtOnce) {
  DaemonProcess daemon;
  ObjectStore::ClientOptions options;
  options.patience = std::chrono::milliseconds(50);
  std::unique_ptr<ObjectStore> store;
  ASSERT_EQ(ObjectStore::connect(daemon.socket(), options, &store), Status::kOk);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  EXPECT_EQ(daemon.end(SIGKILL), -SIGKILL);
  Status first = set(store.get(), space, key_of(1), data_of(1, 1));
  EXPECT_TRUE(first == Status::kAborted || first == Status::kNoDaemon);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(set(store.get(), space, key_of(1), data_of(1, 1)), Status::kNoDaemon);
  }
  EXPECT_FALSE(exists(store.get(), space, key_of(1)));
  daemon.start();
  EXPECT_EQ(set(store.get(), space, key_of(1), data_of(1, 1)), Status::kOk);
}

TEST(LifetimeTest, AClientThatDoesNotReadHoldsUpNobody) {
  DaemonProcess daemon("", [](const auto&) {
    return std::string("[pool]\nsize = \"64MiB\"\nmax_objects = 4096\n");  // None is evicted.
  });
  const auto lazy = connect_to(daemon.socket(), 4 << 20);
  const auto other = connect_to(daemon.socket(), 4 << 20);
  std::uint32_t space = 0;
  ASSERT_EQ(lazy->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(other->open_namespace(namespace_of(1), &space), Status::kOk);
  const Bytes data = contents(1, 5000);
  constexpr std::uint64_t kJobs = 2000;
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    JobId id = 0;
    ASSERT_EQ(submit_set(lazy.get(), space, key_of(i), data, &id), Status::kOk);
  }
  for (std::uint64_t i = 5000; i < 5100; ++i) {
    ASSERT_EQ(set(other.get(), space, key_of(i), data), Status::kOk);
  }
  std::uint64_t survived = 0;
  std::size_t reported = 0;
  while (reported < kJobs) {
    pollfd ready{lazy->event_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 10000), 1);
    for (const JobResult& result : lazy->drain()) {
      EXPECT_TRUE(result.all_ok());
      if (result.all_ok()) ++survived;
      ++reported;
    }
  }
  std::uint64_t there = 0;
  for (std::uint64_t i = 0; i < kJobs; ++i) there += exists(other.get(), space, key_of(i)) ? 1 : 0;
  EXPECT_EQ(there, survived);
  report_fault("client stops reading", kJobs, survived, survived - there);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
}

TEST(LifetimeTest, TwoDaemonsDoNotServeOnePool) {
  DaemonProcess daemon;
  ServerConfig config;
  config.pools[0].path = daemon.pool();
  config.socket.path = daemon.socket() + "2";
  std::unique_ptr<Server> second;
  std::string reason;
  EXPECT_EQ(Server::start(config, &second, &reason), Status::kBusy);
  EXPECT_NE(reason.find("has this pool open"), std::string::npos) << reason;
  config.pools[0].path.clear();
  config.pools[0].size_bytes = 16 << 20;
  config.socket.path = daemon.socket();
  EXPECT_EQ(Server::start(config, &second, &reason), Status::kBusy);
  EXPECT_EQ(daemon.end(SIGTERM), 0);
}

}  // namespace
}  // namespace nearkv::test
