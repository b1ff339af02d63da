#include "remote/remote_server.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "edge.hpp"
#include "remote/address.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kLeastSecretBytes = 16;
constexpr std::size_t kMostStrangers = 16;  // Peers that have proved nothing yet.

std::uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

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
  if (listener_ != nullptr) ::ucp_listener_destroy(listener_);
}

void RemoteServer::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

Status RemoteServer::listen(std::string* reason) {
  sockaddr_storage address{};
  Status status = parse_address(options_.address, &address, reason);
  if (status == Status::kOk) status = make_context(options_.transports, &context_, reason);
  if (status == Status::kOk) status = make_worker(context_, &worker_, reason);
  if (status != Status::kOk) return status;
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
  params.sockaddr.addrlen = sizeof(address);
  params.conn_handler.cb = [](ucp_conn_request_h request, void* arg) {
    auto* const self = static_cast<RemoteServer*>(arg);
    const std::scoped_lock lock(self->mutex_);
    self->requests_.push_back(request);
  };
  params.conn_handler.arg = this;
  const ucs_status_t listening = ::ucp_listener_create(worker_.get(), &params, &listener_);
  if (listening != UCS_OK) {
    *reason = options_.address + ": " + ucx_text("cannot listen", listening) +
              "; choose an address of this machine and a free port";
    return Status::kIoError;
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (::ucp_listener_query(listener_, &attributes) == UCS_OK) port_ = port_of(attributes.sockaddr);
  return Status::kOk;
}

void RemoteServer::run() {
  while (!stop_) {
    while (::ucp_worker_progress(worker_.get()) != 0) {
    }
    take_requests();
    peers_.remove_if([](const ServerPeer& peer) { return peer.is_finished(); });
    if (!arm(worker_)) continue;
    std::array<pollfd, 2> ready = {{{event_fd_of(worker_), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), -1);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof(count));
  }
  peers_.clear();
}

void RemoteServer::take_requests() {
  std::vector<ucp_conn_request_h> requests;
  {
    const std::scoped_lock lock(mutex_);
    requests.swap(requests_);
  }
  for (ucp_conn_request_h request : requests) {
    const auto strangers = static_cast<std::size_t>(
        std::ranges::count_if(peers_, [](const ServerPeer& peer) { return !peer.is_welcome(); }));
    const bool room = peers_.size() < options_.max_peers + kMostStrangers &&
                      peers_.size() - strangers < options_.max_peers && strangers < kMostStrangers;
    const Status status = at_edge([&] {
      if (!room) return Status::kQueueFull;
      peers_.emplace_back(session_, &terms_, context_, request, [this] { wake(); });
      return Status::kOk;
    });
    if (status != Status::kOk) (void)::ucp_listener_reject(listener_, request);
  }
}

}  // namespace nearkv
