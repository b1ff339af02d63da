// One life of a daemon, as a client sees it: a socket, a window and its rings.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/wire/packet_socket.hpp"
#include "daemon/wire/rings.hpp"
#include "daemon/wire/shared_memory.hpp"
#include "daemon/wire/spin.hpp"
#include "daemon/wire/window.hpp"
#include "nearkv/object_store.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Where a daemon is, or what stands for one.
struct DaemonPlace {
  /// Gives a socket at whose other end it listens; kNoDaemon, kDenied, ... with a reason.
  using Dial = std::function<Status(PacketSocket* socket, std::string* reason)>;

  /// At a Unix socket.
  DaemonPlace(const std::string& path)  // NOLINT(google-explicit-constructor): a path names one.
      : name(path), dial([path](PacketSocket* socket, std::string* reason) {
          return PacketSocket::connect(path, socket, reason);
        }) {}
  DaemonPlace(std::string its_name, Dial its_dial)
      : name(std::move(its_name)), dial(std::move(its_dial)) {}

  std::string name;  ///< For reasons.
  Dial dial;
};

/// Thread safety: await() beside one other call; else one thread at a time.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  /// Asks for a window with a data area of up to `data_bytes`. kNoDaemon, kDenied, kBadAbi,
  /// kQueueFull, kOutOfMemory, kTimeout with a reason. Answers are waited for as long as `options`
  /// say.
  static Status open(const DaemonPlace& place, std::uint64_t data_bytes,
                     const ObjectStore::ClientOptions& options,
                     std::unique_ptr<Connection>* connection, std::string* reason);

  [[nodiscard]] const WindowView& window() const { return view_; }
  [[nodiscard]] const WindowLayout& layout() const { return layout_; }
  [[nodiscard]] const std::shared_ptr<SharedMemory>& memory() const { return memory_; }
  [[nodiscard]] int window_fd() const { return window_fd_.get(); }

  /// Puts a request on the ring, on which the caller has seen to there being room.
  void submit(const nkv_daemon_submission& submission);

  /// The next completion, if there is one.
  bool take(nkv_daemon_completion* completion) { return rings_.take(completion); }

  /// Completions taken so far, for await().
  [[nodiscard]] std::uint32_t head() const { return rings_.head(); }

  /// Sleeps until there is a completion after `head`. kTimeout; kNoDaemon if there will be none.
  Status await(std::uint32_t head, Clock::time_point deadline);

  /// Readable when a request with NKV_DAEMON_FLAG_NOTIFY was answered, until clear().
  [[nodiscard]] int notify_fd() const { return woken_.get(); }
  void clear() const;

  /// Has an event (EPOLLRDHUP) once the daemon is gone.
  [[nodiscard]] int socket_fd() const { return socket_.fd(); }
  [[nodiscard]] bool is_alive() const;

  /// Tells the daemon of memory, or to forget it. kTimeout: it may do so later; memory that it then
  /// knows it is told to forget, before anything else.
  Status register_region(int memfd, std::uint64_t offset, std::uint64_t bytes,
                         std::uint32_t* region);
  Status unregister_region(std::uint32_t region);

  /// Takes those answers to these that came late; whether there were any.
  bool take_late_replies();

 private:
  /// A request whose answer has not been taken.
  struct Owed {
    std::uint32_t message = 0;
    std::uint32_t region = 0;  ///< UNREGISTER: which.
  };

  Connection() = default;

  Status exchange(const nkv_daemon_region& request, int fd, nkv_daemon_region* reply);
  Status ask(const nkv_daemon_region& request, int fd);
  Status take_reply(Clock::time_point deadline, nkv_daemon_region* reply);
  Status take_late_reply(Clock::time_point deadline);

  std::chrono::milliseconds answer_timeout_{0};
  PacketSocket socket_;
  std::deque<Owed> owed_;                ///< In the order in which they will be answered.
  std::vector<std::uint32_t> unwanted_;  ///< Regions that the daemon still has to forget.
  FileDescriptor window_fd_;
  FileDescriptor wake_daemon_;
  FileDescriptor woken_;
  std::shared_ptr<SharedMemory> memory_;
  WindowLayout layout_;
  WindowView view_;
  ClientRings rings_;
  Spinner spinner_;
};

}  // namespace nearkv
