#include "daemon/server/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "edge.hpp"
#include "pool/blank_pool.hpp"

namespace nearkv {
namespace {

// Connections that are not welcome, or not yet, besides those that are.
constexpr std::size_t kSpareThreads = 64;

/// Three descriptors a client are more than most shells allow.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

unsigned copiers(const ServerConfig& config) {
  return config.workers != 0 ? config.workers : std::max(std::thread::hardware_concurrency(), 1U);
}

ServerConfig with_default_tenant(ServerConfig config) {
  if (config.tenants.empty()) {
    TenantConfig own;
    own.name = "default";
    own.uids = {::geteuid()};
    own.permissions = kMayRead | kMayWrite | kMayErase | kMayAdminister;
    config.tenants.push_back(own);
  }
  return config;
}

std::string pool_names(const ServerConfig& config) {
  std::string names;
  for (const PoolConfig& pool : config.pools) {
    names += (names.empty() ? "" : ", ") + (pool.path.empty() ? "memory" : pool.path);
  }
  return names;
}

void signal_event(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof(one));
}

}  // namespace

Server::Server(const ServerConfig& config)
    : config_(with_default_tenant(config)),
      log_(config.log.level, config.log.form),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Status Server::start(const ServerConfig& config, std::unique_ptr<Server>* server,
                     std::string* reason) {
  return at_edge([&] {
    raise_descriptor_limit();
    std::unique_ptr<Server> made(new Server(config));
    Status status = made->open_pool(reason);
    if (status != Status::kOk) return status;
    made->apply_quotas();
    made->limit_namespaces();
    made->sessions_ =
        std::make_unique<SessionHost>(made->store_.get(), made->config_.tenants, copiers(config));
    const SessionContext& session = made->sessions_->context();
    made->environment_.session = session;
    made->environment_.config = &made->config_;
    made->environment_.log = &made->log_;
    made->environment_.connected = &made->connected_;
    made->environment_.finished = [fd = made->wake_.get()] { signal_event(fd); };
    if (config.metrics.port) {
      status = MetricsServer::start(config.metrics.address, *config.metrics.port, session,
                                    &made->metrics_, reason);
      if (status != Status::kOk) return status;
    }
    status = listen_at(config.socket.path, config.socket.mode, &made->listener_, reason);
    if (status != Status::kOk) return status;
    made->janitor_ = std::make_unique<Janitor>(session, config.scrub_bytes_per_s, &made->log_);
    made->accepting_ = std::thread([raw = made.get()] { raw->accept_clients(); });
    const ObjectStoreStats stats = made->store_->stats();
    made->log_.info("serving", {{"socket", config.socket.path},
                                {"pool", pool_names(config)},
                                {"pool_bytes", stats.total_bytes},
                                {"objects", stats.objects},
                                {"torn", stats.torn},
                                {"metrics_port", std::uint64_t{made->metrics_port()}}});
    *server = std::move(made);
    return Status::kOk;
  });
}

Server::~Server() {
  stop_ = true;
  signal_event(wake_.get());
  if (accepting_.joinable()) accepting_.join();
  // All at once: each then finishes what it is doing while the others do.
  for (ClientThread& thread : threads_) thread.stop();
  threads_.clear();
  janitor_.reset();
  metrics_.reset();
  if (!listener_) return;  // It never began.
  ::unlink(config_.socket.path.c_str());
  log_.info("stopped", {{"objects", store_->stats().objects}});
}

Status Server::open_pool(std::string* reason) {
  std::vector<std::unique_ptr<ObjectStore>> tiers;
  for (const PoolConfig& pool : config_.pools) {
    std::unique_ptr<ObjectStore> tier;
    const Status status = open_tier(pool, &tier, reason);
    if (status != Status::kOk) return status;
    tiers.push_back(std::move(tier));
  }
  if (tiers.size() == 1) {
    store_ = std::move(tiers.front());
    return Status::kOk;
  }
  return ObjectStore::stack(std::move(tiers), config_.stack, &store_, reason);
}

Status Server::open_tier(const PoolConfig& pool, std::unique_ptr<ObjectStore>* tier,
                         std::string* reason) {
  ObjectStore::Options options;
  options.max_objects = pool.max_objects;
  options.max_namespaces = pool.max_namespaces;
  options.eviction = config_.eviction;
  options.patience = config_.patience;
  options.seal_key_file = pool.seal_key_file;
  options.defragment_above = pool.defragment_above;
  const std::string uri = (pool.is_file ? "file:" : "cpu:") + pool.path;
  const std::string huge = pool.is_file || pool.huge_pages ? "" : "huge=off";
  // A device has a size of its own, and so has a pool that is there.
  const bool has_size = pool.size_bytes != 0;
  if (!has_size && !std::filesystem::is_character_file(pool.path) &&
      (pool.path.empty() || is_blank_pool(pool.path))) {
    *reason = "a new pool needs a size; set pool.size";
    return Status::kBadArgument;
  }
  std::string choices = has_size ? "?memory=" + std::to_string(pool.size_bytes) : "";
  if (!huge.empty()) choices += (has_size ? "&" : "?") + huge;
  return ObjectStore::open_or_create(uri + choices, options, tier, reason);
}

void Server::limit_namespaces() {
  // What the pool was made for, which may be something else than the configuration says now.
  const auto all = static_cast<std::uint32_t>(store_->stats().max_namespaces);
  const auto share = std::max(all / static_cast<std::uint32_t>(config_.tenants.size()), 1U);
  for (const TenantConfig& tenant : config_.tenants) {
    (void)store_->limit_namespaces(tenant.number, tenant.max_namespaces.value_or(share));
  }
}

void Server::apply_quotas() {
  for (const TenantConfig& tenant : config_.tenants) {
    const std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    (void)store_->set_quota(tenant.number, tenant.quota_bytes.value_or(none));
  }
}

void Server::reload(const ServerConfig& config) {
  for (TenantConfig& tenant : config_.tenants) {
    const auto found = std::ranges::find(config.tenants, tenant.number, &TenantConfig::number);
    if (found != config.tenants.end()) tenant.quota_bytes = found->quota_bytes;
  }
  apply_quotas();
  log_.set_level(config.log.level);
  log_.info("reloaded");
}

void Server::accept_clients() {
  while (!stop_) {
    const bool full = threads_.size() >= config_.clients.max + kSpareThreads;
    std::array<pollfd, 2> ready = {
        {{wake_.get(), POLLIN, 0}, {listener_.get(), static_cast<short>(full ? 0 : POLLIN), 0}}};
    ::poll(ready.data(), ready.size(), -1);
    if ((ready[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof(count));
      join_finished();
    }
    if ((ready[1].revents & POLLIN) != 0 && !accept_one()) {
      log_.error("no client can be accepted", {{"reason", std::string(std::strerror(errno))}});
      // Out of descriptors or threads; some come free when a client goes.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

bool Server::accept_one() {
  FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
  return at_edge([&] {
           threads_.emplace_back(environment_, PacketSocket(std::move(fd)));
           return Status::kOk;
         }) == Status::kOk;
}

void Server::join_finished() {
  threads_.remove_if([](const ClientThread& thread) { return thread.is_finished(); });
}

}  // namespace nearkv
