// Lets stores on other machines use one of ours.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "remote/server_peer.hpp"

namespace nearkv {

struct RemoteServerOptions {
  std::string address;                      ///< HOST:PORT; port 0: the kernel's choice.
  std::vector<std::byte> secret;            ///< That peers must know; at least 16 bytes.
  std::vector<std::uint16_t> tenants;       ///< That they may use, with what each may do.
  std::uint64_t window_bytes = 1ULL << 30;  ///< Most of one peer's data area.
  std::size_t max_peers = 64;
  std::string transports;  ///< As in UCX_TLS; empty: what the environment says.
};

/// Serves until it is destroyed. Each peer has a thread and at most a window of memory; peers that
/// have not proved that they know the secret are few and have neither window nor time. Thread
/// safety: all calls.
class RemoteServer {
 public:
  /// Listens. What the session needs, the store above all, outlives this. kBadUri, kBadArgument,
  /// kIoError with a reason that says what to do.
  static Status start(const SessionContext& session, const RemoteServerOptions& options,
                      std::unique_ptr<RemoteServer>* server, std::string* reason);

  RemoteServer(const RemoteServer&) = delete;
  RemoteServer& operator=(const RemoteServer&) = delete;

  /// Finishes the chunks that are being run, and ends all connections.
  ~RemoteServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  RemoteServer(const SessionContext& session, const RemoteServerOptions& options);

  Status listen(std::string* reason);
  void run();
  [[nodiscard]] bool accept_peers();
  void wake() const;

  SessionContext session_;
  RemoteServerOptions options_;
  PeerTerms terms_;
  UcxContext context_;
  FileDescriptor listener_;
  std::uint16_t port_ = 0;
  FileDescriptor wake_;
  std::atomic<bool> stop_{false};
  std::list<ServerPeer> peers_;  ///< The listening thread's.
  std::thread thread_;
};

}  // namespace nearkv
