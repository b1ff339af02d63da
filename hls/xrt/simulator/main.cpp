// The simulator process: XRT's shim starts it (by simulate.sh), it connects to the shim's sockets.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "xrt/simulator/card.hpp"
#include "xrt/simulator/channel.hpp"
#include "xrt/simulator/device_memory.hpp"
#include "xrt/simulator/server.hpp"
#include "xrt/xclbin/description.hpp"

namespace {

using namespace std::chrono_literals;
using nearkv::hw_emu::Card;
using nearkv::hw_emu::Channel;
using nearkv::hw_emu::Description;
using nearkv::hw_emu::DeviceMemory;
using nearkv::hw_emu::HostMemoryChannel;
using nearkv::hw_emu::Server;

// The shim opens its sockets before or while this process starts.
constexpr auto kConnectTimeout = 30s;
// Simulate.sh, which starts this, reads it: the folder of the run shall stay.
constexpr const char* kKeepFile = "keep";

/// The process that the shim is part of.
class Application {
 public:
  explicit Application(const char* process)
      : file_(static_cast<int>(::syscall(SYS_pidfd_open, std::strtol(process, nullptr, 10), 0))),
        was_there_(file_ >= 0 || errno != ESRCH) {}
  ~Application() {
    if (file_ >= 0) ::close(file_);
  }
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  /// Whether it has not ended yet.
  [[nodiscard]] bool is_there() const {
    pollfd end{.fd = file_, .events = POLLIN, .revents = 0};
    return was_there_ && ::poll(&end, 1, 0) <= 0;
  }

 private:
  int file_;
  bool was_there_;
};

void tell(const std::string& text) { std::cerr << "nearkv xrt-emu: " << text << '\n'; }

/// Of the shim's sockets: it builds these names by the user's, in /tmp whatever TMPDIR says.
std::string socket_path(const std::string& prefix) {
  const char* const user = std::getenv("USER");
  const char* const id = std::getenv("EMULATION_SOCKETID");
  if (id == nullptr) return {};
  return "/tmp/" + (user == nullptr ? "" : std::string(user) + "/") + prefix + id;
}

std::string read_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Their names go as soon as they are not needed, so that nothing stays whatever ends how.
std::unique_ptr<Channel> connect(const std::string& prefix, const Application& application) {
  const std::string path = socket_path(prefix);
  auto channel =
      Channel::connect(path, kConnectTimeout, [&application] { return application.is_there(); });
  if (channel == nullptr && application.is_there()) {
    tell("XRT's socket " + path + " is not there");
  }
  ::unlink(path.c_str());
  return channel;
}

int simulate(const char* description_file, const Application& application) {
  const Description description = Description::parse(read_file(description_file));
  const auto host = connect("D2X_unix_sock_", application);
  const auto requests = connect("", application);
  if (host == nullptr || requests == nullptr) return application.is_there() ? 1 : 0;
  HostMemoryChannel host_memory(host.get());
  DeviceMemory memory(description.banks, &host_memory);
  Card card(description, &memory, tell);
  Server server(requests.get(), host.get(), &memory, &card, tell);
  const Server::End end = server.serve();
  if (server.keeps_run_folder()) std::ofstream{kKeepFile};
  return end == Server::End::kRefused ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: simulator DESCRIPTION PROCESS\n\n"
                 "XRT's hw_emu shim starts this, by simulate.sh; it is part of PROCESS.\n";
    return 2;
  }
  try {
    return simulate(arguments[1], Application(arguments[2]));
  } catch (const std::exception& error) {
    tell(error.what());
    return 1;
  }
}
