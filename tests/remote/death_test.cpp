// Clients that die while they connect, many at once, and others that only knock.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "server_process.hpp"
#include "support/clients.hpp"
#include "support/environment.hpp"
#include "support/fault_report.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

/// Connects, uses the store a little and leaves, over and over.
[[noreturn]] void come_and_go(RemoteStoreOptions options) {
  options.window_bytes = 1 << 20;
  while (true) {
    std::unique_ptr<ObjectStore> store;
    std::string reason;
    if (connect_remote(options, &store, &reason) != Status::kOk) continue;
    Namespace name;
    name.tenant = 1;
    name.model = "model";
    std::uint32_t space = 0;
    if (store->open_namespace(name, &space) == Status::kOk) {
      (void)set(store.get(), space, key_of(7), contents(7, 40'000));
    }
  }
}

/// Opens connections and resets them at once, some with a few bytes sent.
[[noreturn]] void knock(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (std::uint32_t round = 0;; ++round) {
    std::array<FileDescriptor, 4> sockets;
    for (FileDescriptor& fd : sockets) {
      fd = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        continue;
      }
      if (round % 3 == 0) (void)::send(fd.get(), &round, sizeof(round), MSG_NOSIGNAL);
      const linger at_once{1, 0};
      (void)::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    ::usleep(500);
  }
}

TEST(RemoteDeathTest, ClientsThatDieWhileTheyConnectStopNobodyElse) {
  constexpr std::size_t kAtATime = 6;
  ServerProcess server("tcp");
  Random random(test_seed());
  const auto begin = std::chrono::steady_clock::now();
  const pid_t knocker = ::fork();
  if (knocker == 0) knock(server.port());
  const std::uint64_t deaths = by_size(1200, 12000);
  std::uint64_t died = 0;
  while (died < deaths && server.is_alive()) {
    std::vector<pid_t> children;
    for (std::size_t i = 0; i < kAtATime; ++i) {
      const pid_t child = ::fork();
      if (child == 0) come_and_go(server.options());
      children.push_back(child);
    }
    for (const pid_t child : children) {
      ::usleep(static_cast<useconds_t>(random() % 12'000));
      ::kill(child, SIGKILL);
      ++died;
    }
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  }
  ::kill(knocker, SIGKILL);
  ::waitpid(knocker, nullptr, 0);
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(server.is_alive()) << "after " << died << " clients and "
                                 << std::chrono::duration<double>(took).count() << " s";
  report_fault("remote clients that die while they connect", died, died, 0);
  // Whoever comes now is served, and nothing of the dead is left.
  std::unique_ptr<ObjectStore> store;
  ASSERT_TRUE(eventually([&] { return connect_remote(server.options(), &store) == Status::kOk; }));
  const std::uint32_t space = open_space(store.get());
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 500'000)), Status::kOk);
  Bytes found;
  ASSERT_EQ(get(store.get(), space, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(1, 500'000));
  expect_nothing_left_of_clients(server.process());
  EXPECT_EQ(server.finish(), 0);
}

}  // namespace
}  // namespace nearkv::test
