// One client: its connection, its window, and the thread that serves it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "daemon/server/config.hpp"
#include "daemon/server/session.hpp"
#include "daemon/wire/packet_socket.hpp"

namespace nearkv {

/// What the threads of all clients share.
struct ClientEnvironment {
  SessionContext session;
  const ServerConfig* config = nullptr;
  const Log* log = nullptr;
  std::atomic<std::uint32_t>* connected = nullptr;  ///< Clients that were welcomed.
  std::function<void()> finished;  ///< Called when a thread has nothing left to do.
};

/// Serves a client from its hello to its end, whichever way that comes. Nothing that the client
/// does or leaves undone can block the thread: descriptors that the client holds too are none that
/// the daemon waits on or writes to, but ends of pipes and a socket of its own.
class ClientThread {
 public:
  ClientThread(const ClientEnvironment& environment, PacketSocket socket);
  ClientThread(const ClientThread&) = delete;
  ClientThread& operator=(const ClientThread&) = delete;

  /// Stops and waits; the chunk that is being run is finished.
  ~ClientThread();

  void stop();
  [[nodiscard]] bool is_finished() const { return finished_; }

 private:
  void serve();
  [[nodiscard]] Status receive_hello(nkv_daemon_hello* hello);
  void refuse(Status status, const std::string& why);
  void serve_welcomed(const nkv_daemon_hello& hello, const std::vector<Grant>& grants);
  [[nodiscard]] std::string run(Session* session, Regions* regions, ClientStatus* client,
                                int wake_client, int woken);
  [[nodiscard]] bool read_socket(Session* session, Regions* regions, ClientStatus* client);

  ClientEnvironment environment_;
  PacketSocket socket_;
  Peer peer_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace nearkv
