// `nearkv serve` as a process that tests can kill.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "support/clients.hpp"
#include "support/eventually.hpp"
#include "support/temporary_folder.hpp"

namespace nearkv::test {

/// A daemon over files of its own, which survive it. Tenants 1 and 2 are the tester's.
class DaemonProcess {
 public:
  /// The part of a configuration that says where objects live.
  using Pools = std::function<std::string(const TemporaryFolder& folder)>;

  static std::string one_pool(const TemporaryFolder& folder) {
    return "[pool]\npath = \"" + folder.file("pool") + "\"\nsize = \"64MiB\"\nhuge_pages = false\n";
  }

  /// `log_level`: of the command line, if any.
  explicit DaemonProcess(const std::string& settings = "", const Pools& pools = one_pool,
                         std::string log_level = "")
      : log_level_(std::move(log_level)) {
    std::ofstream config(folder_.file("config"));
    config << settings << '\n'
           << pools(folder_) << "[socket]\npath = \"" << socket()
           << "\"\n[log]\nform = \"json\"\n[metrics]\nport = 0\n";
    for (const int number : {1, 2}) {
      config << "[[tenant]]\nnumber = " << number << "\nname = \"tenant-" << number
             << "\"\nuids = [" << ::geteuid()
             << "]\npermissions = [\"read\", \"write\", \"erase\", \"admin\"]\n";
    }
    config.close();
    start();
  }
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;
  ~DaemonProcess() {
    if (process_ > 0) (void)end(SIGKILL);
  }

  /// Starts it and waits until it serves.
  void start() {
    std::filesystem::remove(folder_.file("log"));
    process_ = ::fork();
    if (process_ == 0) {
      const int log = ::open(folder_.file("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      ::dup2(log, STDERR_FILENO);
      const std::string config = folder_.file("config");
      ::execl(NEARKV_EXECUTABLE, "nearkv", "serve", "--config", config.c_str(),
              log_level_.empty() ? nullptr : "--log-level", log_level_.c_str(), nullptr);
      ::_exit(127);
    }
    EXPECT_TRUE(eventually([&] { return event("serving").has_value(); }));
  }

  /// Its exit status, or minus the signal that ended it.
  int end(int signal) {
    ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// The last line of its log that tells of an event.
  [[nodiscard]] std::optional<nlohmann::json> event(const std::string& name) const {
    std::ifstream log(folder_.file("log"));
    std::optional<nlohmann::json> found;
    for (std::string line; std::getline(log, line);) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json["event"] == name) found = json;
    }
    return found;
  }

  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] std::string socket() const { return folder_.file("socket"); }
  [[nodiscard]] std::string pool() const { return folder_.file("pool"); }
  [[nodiscard]] std::string config() const { return folder_.file("config"); }

 private:
  TemporaryFolder folder_;
  std::string log_level_;
  pid_t process_ = -1;
};

}  // namespace nearkv::test
