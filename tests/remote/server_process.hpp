// A server of remote stores that tests can kill.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>

#include "file_descriptor.hpp"
#include "remote/remote_store.hpp"
#include "support/eventually.hpp"
#include "support/objects.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {

inline constexpr const char* kSecret = "a secret of sixteen bytes or more";

/// tests/remote/server_main.cpp over a pool that survives it.
class ServerProcess {
 public:
  explicit ServerProcess(std::string transports) : transports_(std::move(transports)) { start(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    if (process_ > 0) (void)end(SIGKILL);
  }

  /// Starts it, at the port that it had before if there is one, and waits until it serves.
  void start() {
    int input[2];
    int output[2];
    ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      ::execl(NEARKV_REMOTE_SERVER, "remote_test_server", pool_.path().c_str(), address().c_str(),
              kSecret, transports_.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    input_ = FileDescriptor(input[1]);
    output_ = FileDescriptor(output[0]);
    std::string line;
    char byte = 0;
    while (::read(output_.get(), &byte, 1) == 1 && byte != '\n') line += byte;
    ASSERT_FALSE(line.empty()) << "the server did not start";
    port_ = line;
  }

  /// Its exit status, or minus the signal that ended it.
  int end(int signal) {
    ::kill(process_, signal);
    return wait();
  }
  /// Asks it to end by itself.
  int finish() {
    input_ = FileDescriptor();
    return wait();
  }
  void signal(int number) const { ::kill(process_, number); }
  [[nodiscard]] bool is_alive() const { return ::waitpid(process_, nullptr, WNOHANG) == 0; }

  [[nodiscard]] std::uint16_t port() const { return static_cast<std::uint16_t>(std::stoi(port_)); }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + port_; }
  [[nodiscard]] const std::string& transports() const { return transports_; }
  [[nodiscard]] pid_t process() const { return process_; }

  [[nodiscard]] RemoteStoreOptions options(const std::string& secret = kSecret) const {
    RemoteStoreOptions options;
    options.address = address();
    const Bytes bytes = bytes_of(secret);
    options.secret = bytes;
    options.window_bytes = 32 << 20;
    options.transports = transports_;
    options.retry_after = std::chrono::milliseconds(50);
    return options;
  }

  [[nodiscard]] std::unique_ptr<ObjectStore> connect(const RemoteStoreOptions& options) const {
    std::unique_ptr<ObjectStore> store;
    std::string reason;
    EXPECT_EQ(connect_remote(options, &store, &reason), Status::kOk) << reason;
    return store;
  }
  [[nodiscard]] std::unique_ptr<ObjectStore> connect() const { return connect(options()); }

 private:
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  TemporaryFile pool_{"remote_pool"};
  std::string transports_;
  std::string port_ = "0";
  FileDescriptor input_;
  FileDescriptor output_;
  pid_t process_ = -1;
};

inline std::uint32_t open_space(ObjectStore* store, std::uint16_t tenant = 1) {
  Namespace name;
  name.tenant = tenant;
  name.model = "model";
  std::uint32_t number = 0;
  EXPECT_EQ(store->open_namespace(name, &number), Status::kOk);
  return number;
}

}  // namespace nearkv::test
