// Daemons that are ended at any moment, by kill or by request, under clients that store, replace,
// erase and read all the while: a minute, or an hour in the long size.
#include <atomic>
#include <set>
#include <thread>

#include "server_fixture.hpp"
#include "support/daemon_process.hpp"
#include "support/environment.hpp"
#include "support/fault_report.hpp"
#include "support/objects.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kClients = 3;
constexpr std::uint64_t kKeys =
    120;  // Of each client: all of them fit the pool, so none is evicted.
constexpr std::uint64_t kNothing = 0;

/// What version `version` of an object holds.
Bytes data_of(std::uint64_t client, std::uint64_t key, std::uint64_t version) {
  const std::uint64_t seed = (client * kKeys + key) * 1000003 + version;
  return contents(seed, 1 + seed * 2654435761 % 100000);
}

/// One client and what it may find: of each key the version that was acknowledged or last seen, and
/// those whose jobs a daemon's end cut off, which are there or are not.
class Client {
 public:
  Client(const std::string& socket, std::uint64_t number)
      : number_(number), store_(connect_to(socket, 8 << 20)), possible_(kKeys, {kNothing}) {
    EXPECT_EQ(store_->open_namespace(namespace_of(1, "client " + std::to_string(number)), &space_),
              Status::kOk);
  }

  /// One random call; false if it shows that something is lost or wrong.
  bool step(Random& random) {
    const std::uint64_t key = pick(random, 0, kKeys - 1);
    switch (pick(random, 0, 5)) {
      case 0:
      case 1: {
        Job job;
        job.overwrite = true;
        const std::uint64_t version = ++versions_;
        return learn(key, version,
                     set(store_.get(), space_, key_of(key), data_of(number_, key, version), job));
      }
      case 2:
        return learn(key, kNothing, erase(store_.get(), space_, key_of(key)));
      default:
        return look(key);
    }
  }

  /// Whether a key holds what it may.
  bool look(std::uint64_t key) {
    Bytes found;
    const Status status = get(store_.get(), space_, key_of(key), &found);
    if (status == Status::kAborted) return true;
    if (status != Status::kOk && status != Status::kNotFound) return false;
    for (const std::uint64_t version : possible_[key]) {
      const bool fits = version == kNothing ? status == Status::kNotFound
                                            : found == data_of(number_, key, version);
      if (!fits) continue;
      possible_[key] = {version};
      return true;
    }
    return false;
  }

 private:
  bool learn(std::uint64_t key, std::uint64_t version, Status status) {
    if (status == Status::kAborted) {
      possible_[key].insert(version);
      return true;
    }
    const bool nothing_to_erase = version == kNothing && status == Status::kNotFound;
    if (nothing_to_erase && !possible_[key].contains(kNothing)) return false;
    possible_[key] = {version};
    return status == Status::kOk || nothing_to_erase;
  }

  std::uint64_t number_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t space_ = 0;
  std::uint64_t versions_ = 0;
  std::vector<std::set<std::uint64_t>> possible_;
};

TEST(SoakTest, NothingIsLostHoweverOftenADaemonEnds) {
  DaemonProcess daemon("scrub_rate = \"64MiB\"");
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint64_t c = 0; c < kClients; ++c) {
    clients.push_back(std::make_unique<Client>(daemon.socket(), c));
  }
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(kClients);
  for (std::uint64_t c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Random random = case_random(c);
      while (!stop) {
        if (!clients[c]->step(random)) ++wrong;
      }
    });
  }
  Random random = case_random(kClients);
  std::uint64_t ends = 0;
  std::uint64_t survived = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(by_size(60, 3600));
  for (; std::chrono::steady_clock::now() < until && wrong == 0; ++ends) {
    ::usleep(pick(random, 20000, 400000));
    const int signal = pick(random, 0, 3) == 0 ? SIGTERM : SIGKILL;
    EXPECT_EQ(daemon.end(signal), signal == SIGKILL ? -SIGKILL : 0);
    ::usleep(pick(random, 0, 30000));
    daemon.start();
    if (wrong == 0) ++survived;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::uint64_t lost = 0;
  for (const auto& client : clients) {
    for (std::uint64_t key = 0; key < kKeys; ++key) lost += client->look(key) ? 0U : 1U;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(lost, 0U);
  EXPECT_GT(ends, 0U);
  report_fault("daemon ended under replacing clients, soak", ends, survived, lost);
}

}  // namespace
}  // namespace nearkv::test
