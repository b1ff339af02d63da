// The daemon: a pool, a socket, and a thread for each client.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "daemon/server/client_thread.hpp"
#include "daemon/server/janitor.hpp"
#include "daemon/server/metrics.hpp"
#include "daemon/server/session_host.hpp"

namespace nearkv {

/// Serves until it is destroyed. Thread safety: all calls.
class Server {
 public:
  /// Opens or makes the pool, which nobody else may be serving, and listens. kBusy, kBadPool,
  /// kBadArgument, kIoError with a reason that says what to do.
  static Status start(const ServerConfig& config, std::unique_ptr<Server>* server,
                      std::string* reason);

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Finishes the chunks that are being run, and ends all connections.
  ~Server();

  /// Takes over the quotas of tenants that are there already, and the log level; no more.
  void reload(const ServerConfig& config);

  [[nodiscard]] const Log& log() const { return log_; }
  /// Where metrics are; 0: nowhere.
  [[nodiscard]] std::uint16_t metrics_port() const { return metrics_ ? metrics_->port() : 0; }

 private:
  explicit Server(const ServerConfig& config);

  Status open_pool(std::string* reason);
  Status open_tier(const PoolConfig& pool, std::unique_ptr<ObjectStore>* tier, std::string* reason);
  void limit_namespaces();
  void apply_quotas();
  void accept_clients();
  [[nodiscard]] bool accept_one();
  void join_finished();

  ServerConfig config_;
  Log log_;
  FileDescriptor listener_;
  FileDescriptor wake_;  ///< Of the accepting thread.
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<SessionHost> sessions_;
  std::unique_ptr<MetricsServer> metrics_;
  std::unique_ptr<Janitor> janitor_;
  ClientEnvironment environment_;
  std::atomic<std::uint32_t> connected_{0};
  std::atomic<bool> stop_{false};
  std::list<ClientThread> threads_;  ///< The accepting thread's.
  std::thread accepting_;
};

}  // namespace nearkv
