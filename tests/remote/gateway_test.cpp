// A daemon's pool, served to other machines by a process that is the daemon's client.
#include <sys/stat.h>

#include <fstream>

#include "file_descriptor.hpp"
#include "remote/remote_store.hpp"
#include "support/daemon_process.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

constexpr const char* kGatewaySecret = "sixteen bytes at least";

/// nearkv-remote; it shows its port on its output.
class Gateway {
 public:
  explicit Gateway(const std::string& socket) : socket_(socket) {
    std::ofstream(secret()) << kGatewaySecret;
    ::chmod(secret().c_str(), 0600);
  }
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;
  ~Gateway() {
    if (process_ > 0) (void)end(SIGKILL);
  }

  void start() {
    int output[2];
    ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(output[1], STDOUT_FILENO);
      const std::string listen = "127.0.0.1:" + port_;
      ::execl(NEARKV_REMOTE_GATEWAY, "nearkv-remote", "--socket", socket_.c_str(), "--listen",
              listen.c_str(), "--secret", secret().c_str(), "--tenant", "1", "--tenant", "7",
              "--transports", "tcp", nullptr);
      ::_exit(127);
    }
    ::close(output[1]);
    output_ = FileDescriptor(output[0]);
    std::string line;
    char byte = 0;
    while (::read(output_.get(), &byte, 1) == 1 && byte != '\n') line += byte;
    const std::size_t space = line.rfind(' ');
    if (space != std::string::npos) port_ = line.substr(space + 1);
  }

  /// Its exit status, or minus the signal that ended it.
  int end(int signal) {
    ::kill(process_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  [[nodiscard]] std::unique_ptr<ObjectStore> connect() const {
    RemoteStoreOptions options;
    options.address = "127.0.0.1:" + port_;
    options.secret = bytes_of(kGatewaySecret);
    options.window_bytes = 16 << 20;
    options.transports = "tcp";
    options.retry_after = std::chrono::milliseconds(50);
    std::unique_ptr<ObjectStore> store;
    std::string reason;
    EXPECT_EQ(connect_remote(options, &store, &reason), Status::kOk) << reason;
    return store;
  }

  [[nodiscard]] std::string secret() const { return folder_.file("secret"); }

 private:
  TemporaryFolder folder_;
  std::string socket_;
  std::string port_ = "0";
  FileDescriptor output_;
  pid_t process_ = -1;
};

class GatewayTest : public testing::Test {
 protected:
  DaemonProcess daemon_;
  Gateway gateway_{daemon_.socket()};
};

TEST_F(GatewayTest, WhatOneMachineStoresTheOtherFinds) {
  gateway_.start();
  const auto far = gateway_.connect();
  const auto near = connect_to(daemon_.socket(), 16 << 20);
  ASSERT_TRUE(far && near);
  std::uint32_t far_space = 0;
  std::uint32_t near_space = 0;
  ASSERT_EQ(far->open_namespace(namespace_of(1), &far_space), Status::kOk);
  ASSERT_EQ(near->open_namespace(namespace_of(1), &near_space), Status::kOk);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Bytes data = contents(i, 100'000 + 200'000 * i);
    ASSERT_EQ(set(i % 2 == 0 ? far.get() : near.get(), i % 2 == 0 ? far_space : near_space,
                  key_of(i), data),
              Status::kOk);
    Bytes found;
    ASSERT_EQ(get(i % 2 == 0 ? near.get() : far.get(), i % 2 == 0 ? near_space : far_space,
                  key_of(i), &found, 4 << 20),
              Status::kOk);
    ASSERT_EQ(found, data);
  }
  // The daemon has no tenant 7, whatever the gateway lends.
  std::uint32_t none = 0;
  EXPECT_EQ(far->open_namespace(namespace_of(7), &none), Status::kDenied);
  EXPECT_EQ(far->open_namespace(namespace_of(2), &none), Status::kDenied);
  EXPECT_EQ(gateway_.end(SIGTERM), 0);
}

TEST_F(GatewayTest, ObjectsOutliveTheGatewayAndTheDaemon) {
  gateway_.start();
  const auto far = gateway_.connect();
  ASSERT_TRUE(far);
  std::uint32_t space = 0;
  ASSERT_EQ(far->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(far.get(), space, key_of(1), contents(1, 300'000)), Status::kOk);
  (void)gateway_.end(SIGKILL);
  gateway_.start();
  ASSERT_TRUE(eventually([&] { return exists(far.get(), space, key_of(1)); }));
  (void)daemon_.end(SIGKILL);
  daemon_.start();
  ASSERT_TRUE(eventually([&] { return exists(far.get(), space, key_of(1)); }));
  Bytes found;
  ASSERT_EQ(get(far.get(), space, key_of(1), &found), Status::kOk);
  EXPECT_EQ(found, contents(1, 300'000));
}

TEST_F(GatewayTest, ASecretThatOthersCanReadIsNone) {
  ::chmod(gateway_.secret().c_str(), 0644);
  gateway_.start();
  EXPECT_EQ(gateway_.wait(), 2);
}

}  // namespace
}  // namespace nearkv::test
