// A store on another machine that uses ours: its connection, its window, its session.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/server/session.hpp"
#include "daemon/wire/rings.hpp"
#include "file_descriptor.hpp"
#include "remote/hello.hpp"
#include "remote/mirror.hpp"

namespace nearkv {

/// What peers may do and how much they get.
struct PeerTerms {
  std::vector<std::byte> secret;
  std::vector<Grant> grants;       ///< Of whoever knows the secret.
  std::uint64_t window_bytes = 0;  ///< Most of a peer's data area.
};

/// Serves a peer from its first byte to its end, whichever way that comes, by a thread and in
/// memory that are the peer's own. Until it has proved that it knows the secret it gets nothing but
/// a nonce, and only for a short while, and nothing that it sends gets to UCX.
class ServerPeer final : public LinkReceiver, public Mirror::Owner {
 public:
  /// `terms` and what the session needs outlive this.
  ServerPeer(const SessionContext& session, const PeerTerms* terms, const UcxContext& context,
             FileDescriptor socket, std::function<void()> finished);
  ServerPeer(const ServerPeer&) = delete;
  ServerPeer& operator=(const ServerPeer&) = delete;

  /// Stops and waits; the chunk that is being run is finished.
  ~ServerPeer() override;

  [[nodiscard]] bool is_finished() const { return finished_; }
  [[nodiscard]] bool is_welcome() const { return welcome_; }

 private:
  /// What a completion is for.
  struct InFlight {
    nkv_daemon_submission submission{};
    std::vector<std::vector<Run>> runs;  ///< Of each item that is to be sent.
  };

  /// All that a peer gets once it is welcome.
  struct Served {
    Served(const SessionContext& context, const PeerTerms& terms, const WindowLayout& layout,
           SharedMemory memory, int memfd, ClientStatus* client, const Proof& session,
           Mirror::Owner* owner);
    ~Served();
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;

    ObjectStore* store;

    SharedMemory window;
    WindowView view;
    Regions regions;
    ClientRings rings;
    Mirror mirror;
    Session session;
    std::map<std::uint64_t, InFlight> in_flight;
  };

  // LinkReceiver
  std::optional<Runs> place(std::span<const std::byte> header, std::size_t bytes) override;
  void landed(std::span<const std::byte> header, const Runs& data) override;
  // Mirror::Owner
  std::optional<std::span<std::byte>> place_of(const Entry& entry, std::size_t bytes) override;
  void take(const Entry& entry) override;

  void serve();
  [[nodiscard]] bool greet();
  Status challenge(const nkv_remote_hello& hello, std::vector<std::byte>* address, Proofs* proofs,
                   TcpSocket::Deadline by);
  Status welcome(const Proof& session, std::uint64_t data_bytes, nkv_remote_hello* answer);
  void run();
  void sleep();
  void answer();

  SessionContext context_;
  const PeerTerms* terms_;
  UcxContext ucx_;
  std::function<void()> finished_call_;
  FileDescriptor wake_;
  TcpSocket socket_;
  std::shared_ptr<ClientStatus> client_;
  std::unique_ptr<Served> served_;
  std::unique_ptr<Link> link_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> welcome_{false};
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace nearkv
