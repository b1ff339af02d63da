#include "share/etcd_server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace nearkv::test {
namespace {

constexpr int kStartAttempts = 600;
constexpr useconds_t kStartPauseUs = 50000;

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool is_bound =
      ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(socket);
  if (!is_bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

std::string url(int port) { return "http://127.0.0.1:" + std::to_string(port); }

}  // namespace

bool EtcdServer::is_installed() {
  const char* const path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "";
  folders += ':';
  for (std::size_t begin = 0; begin < folders.size();) {
    const std::size_t end = folders.find(':', begin);
    const std::string file = folders.substr(begin, end - begin) + "/etcd";
    if (::access(file.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

EtcdServer::EtcdServer() : client_port_(free_port()), peer_port_(free_port()) {
  std::string name = (std::filesystem::temp_directory_path() / "nearkv_etcd_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
}

EtcdServer::~EtcdServer() {
  kill();
  std::filesystem::remove_all(folder_);
}

EtcdOptions EtcdServer::options(std::uint16_t hosts) const {
  EtcdOptions options;
  options.endpoints = {url(client_port_)};
  options.region = "test";
  options.hosts = hosts;
  options.ttl_s = 1;
  return options;
}

void EtcdServer::start() {
  const std::vector<std::string> words{
      "etcd",
      "--data-dir=" + folder_ + "/data",
      "--listen-client-urls=" + url(client_port_),
      "--advertise-client-urls=" + url(client_port_),
      "--listen-peer-urls=" + url(peer_port_),
      "--initial-advertise-peer-urls=" + url(peer_port_),
      "--initial-cluster=default=" + url(peer_port_),
      // etcd rounds leases up to one and a half election timeouts.
      "--heartbeat-interval=50",
      "--election-timeout=500",
  };
  process_ = ::fork();
  if (process_ == 0) {
    const int log = ::open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    // Debian's build asks for consent on architectures that it has not been tested on.
    ::setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1);
    ::execvp("etcd", arguments.data());
    ::_exit(127);
  }
  EtcdMembership client(options(1), 0);
  MembershipView view;
  for (int attempt = 0; attempt < kStartAttempts; ++attempt) {
    EtcdClient probe(options(1).endpoints);
    EtcdValue value;
    if (probe.get("/nearkv/none", &value) == Status::kOk) return;
    ::usleep(kStartPauseUs);
  }
  throw std::runtime_error("etcd does not answer; see " + folder_ + "/log");
}

void EtcdServer::kill() {
  if (process_ == 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = 0;
}

}  // namespace nearkv::test
