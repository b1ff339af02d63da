// The server of QEMU's ivshmem protocol before a client that speaks it: greeting, memory, messages
// both ways, clients that come after each other.
#include "function/ivshmem.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"

namespace nearkv::test {
namespace {

using emulator::IvshmemServer;
using namespace std::chrono_literals;

constexpr unsigned kVectors = 5;
constexpr std::size_t kBytes = 8192;

struct Message {
  std::int64_t value = 0;
  FileDescriptor fd;
};

/// QEMU's side.
class Client {
 public:
  explicit Client(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  [[nodiscard]] Message receive() const {
    Message message;
    std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    iovec text{.iov_base = &message.value, .iov_len = sizeof(message.value)};
    msghdr header{};
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    EXPECT_EQ(::recvmsg(socket_.get(), &header, MSG_WAITALL), 8);
    if (const cmsghdr* const part = CMSG_FIRSTHDR(&header); part != nullptr) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
      message.fd = FileDescriptor(fd);
    }
    return message;
  }

 private:
  FileDescriptor socket_;
};

/// What a client is greeted with.
struct Greeting {
  explicit Greeting(const Client& client) {
    EXPECT_EQ(client.receive().value, 0);  // The protocol's version.
    guest = client.receive().value;
    Message shared = client.receive();
    EXPECT_EQ(shared.value, -1);
    memory = std::move(shared.fd);
    Message bell = client.receive();
    device = bell.value;
    doorbell = std::move(bell.fd);
    for (unsigned i = 0; i < kVectors; ++i) {
      Message event = client.receive();
      EXPECT_EQ(event.value, guest);
      events.push_back(std::move(event.fd));
    }
  }

  std::int64_t guest = -1;
  std::int64_t device = -1;
  FileDescriptor memory;
  FileDescriptor doorbell;
  std::vector<FileDescriptor> events;
};

class IvshmemTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    server_ = IvshmemServer::listen(path_, kBytes, kVectors, &reason);
    ASSERT_NE(server_, nullptr) << reason;
  }

  Greeting greet(const Client& client) {
    server_->serve(1s);
    return Greeting(client);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("socket");
  std::unique_ptr<IvshmemServer> server_;
};

TEST_F(IvshmemTest, AGuestHasTheMemoryAndIsInterrupted) {
  const Client client(path_);
  const Greeting greeting = greet(client);
  EXPECT_EQ(greeting.device, 0);
  EXPECT_EQ(greeting.guest, 1);
  auto* const seen = static_cast<std::byte*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, greeting.memory.get(), 0));
  ASSERT_NE(seen, MAP_FAILED);
  server_->shared()[kBytes - 1] = std::byte{9};
  EXPECT_EQ(seen[kBytes - 1], std::byte{9});
  ::munmap(seen, kBytes);
  server_->interrupt(2);
  eventfd_t count = 0;
  EXPECT_EQ(::eventfd_read(greeting.events[2].get(), &count), 0);
  EXPECT_EQ(count, 1U);
  EXPECT_NE(::eventfd_read(greeting.events[1].get(), &count), 0);
}

TEST_F(IvshmemTest, ARingWakesTheServer) {
  const Client client(path_);
  const Greeting greeting = greet(client);
  std::thread ringer([&greeting] {
    std::this_thread::sleep_for(20ms);
    ::eventfd_write(greeting.doorbell.get(), 1);
  });
  const auto start = std::chrono::steady_clock::now();
  server_->serve(999ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 900ms);
  ringer.join();
}

TEST_F(IvshmemTest, AnotherGuestMayComeAfterOneThatWent) {
  for (unsigned i = 0; i < 3; ++i) {
    {
      const Client client(path_);
      const Greeting greeting = greet(client);
      server_->interrupt(0);
      eventfd_t count = 0;
      EXPECT_EQ(::eventfd_read(greeting.events[0].get(), &count), 0);
    }
    server_->serve(1s);
    server_->interrupt(0);  // To nobody.
  }
}

TEST_F(IvshmemTest, WhatIsNoSocketOfTheDeadIsNotTaken) {
  std::string reason;
  EXPECT_EQ(IvshmemServer::listen(path_, kBytes, kVectors, &reason), nullptr);
  EXPECT_NE(reason.find("in use"), std::string::npos) << reason;
  const std::string file = path_ + ".file";
  std::ofstream(file) << "somebody's";
  EXPECT_EQ(IvshmemServer::listen(file, kBytes, kVectors, &reason), nullptr);
  std::string kept;
  EXPECT_TRUE(std::getline(std::ifstream(file), kept));
  EXPECT_EQ(kept, "somebody's");
  EXPECT_EQ(IvshmemServer::listen("/nonexistent/socket", kBytes, kVectors, &reason), nullptr);
  EXPECT_EQ(IvshmemServer::listen(path_ + std::string(200, 'x'), kBytes, kVectors, &reason),
            nullptr);
}

}  // namespace
}  // namespace nearkv::test
