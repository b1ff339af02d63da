#include "remote/remote_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "edge.hpp"
#include "remote/address.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kLeastSecretBytes = 16;
constexpr std::size_t kMostStrangers = 16;  // Peers that have proved nothing yet.
constexpr int kNapMs = 100;                 // While the process has no descriptors left.

}  // namespace

RemoteServer::RemoteServer(const SessionContext& session, const RemoteServerOptions& options)
    : session_(session), options_(options), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  terms_.secret = options.secret;
  terms_.window_bytes = options.window_bytes;
}

Status RemoteServer::start(const SessionContext& session, const RemoteServerOptions& options,
                           std::unique_ptr<RemoteServer>* server, std::string* reason) {
  return at_edge([&] {
    std::unique_ptr<RemoteServer> made(new RemoteServer(session, options));
    if (options.secret.size() < kLeastSecretBytes) {
      *reason = "the secret of remote peers must have at least 16 bytes";
      return Status::kBadArgument;
    }
    for (const auto& tenant : session.tenants->all()) {
      const TenantConfig& config = tenant->config;
      if (std::ranges::find(options.tenants, config.number) == options.tenants.end()) continue;
      made->terms_.grants.push_back({config.number, config.permissions, &tenant->counters});
    }
    if (made->terms_.grants.size() != options.tenants.size() || options.tenants.empty()) {
      *reason = "remote peers need tenants, and each must be one of the configuration's";
      return Status::kBadArgument;
    }
    const Status status = made->listen(reason);
    if (status != Status::kOk) return status;
    made->thread_ = std::thread([raw = made.get()] { raw->run(); });
    *server = std::move(made);
    return Status::kOk;
  });
}

RemoteServer::~RemoteServer() {
  stop_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void RemoteServer::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

Status RemoteServer::listen(std::string* reason) {
  sockaddr_storage address{};
  Status status = parse_address(options_.address, &address, reason);
  if (status == Status::kOk) status = make_context(options_.transports, &context_, reason);
  if (status != Status::kOk) return status;
  std::string why;
  status = listen_tcp(address, &listener_, &port_, &why);
  if (status == Status::kOk) return status;
  *reason = options_.address + ": cannot listen: " + why +
            "; choose an address of this machine and a free port";
  return status;
}

void RemoteServer::run() {
  while (!stop_) {
    peers_.remove_if([](const ServerPeer& peer) { return peer.is_finished(); });
    const int timeout_ms = accept_peers() ? -1 : kNapMs;
    std::array<pollfd, 2> ready = {{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
    ::poll(ready.data(), timeout_ms < 0 ? 2 : 1, timeout_ms);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof(count));
  }
  peers_.clear();
}

bool RemoteServer::accept_peers() {
  while (true) {
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    const auto strangers = static_cast<std::size_t>(
        std::ranges::count_if(peers_, [](const ServerPeer& peer) { return !peer.is_welcome(); }));
    const bool room = peers_.size() < options_.max_peers + kMostStrangers &&
                      peers_.size() - strangers < options_.max_peers && strangers < kMostStrangers;
    // Whoever does not get in is closed.
    if (!room) continue;
    (void)at_edge([&] {
      peers_.emplace_back(session_, &terms_, context_, std::move(socket), [this] { wake(); });
      return Status::kOk;
    });
  }
}

}  // namespace nearkv
