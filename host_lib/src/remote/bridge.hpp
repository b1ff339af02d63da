// Between a client of this process and a server on another machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/wire/packet_socket.hpp"
#include "daemon/wire/rings.hpp"
#include "daemon/wire/shared_memory.hpp"
#include "remote/hello.hpp"
#include "remote/mirror.hpp"
#include "remote/remote_store.hpp"

namespace nearkv {

/// A window of which the client keeps the data area over all connections, so that spans stay valid.
struct BridgeMemory {
  FileDescriptor fd;
  SharedMemory window;
  WindowLayout layout;

  [[nodiscard]] std::span<std::byte> data() const {
    return window.bytes().subspan(layout.data_at, layout.data_bytes);
  }
};

/// One connection. To the client it is a daemon at the end of a socket (host_lib/src/daemon); what
/// the client puts into the window goes to the server's window, and back. When the connection ends
/// the socket is closed, and by then nobody writes to the window any more.
class Bridge final : public LinkReceiver, public Mirror::Owner {
 public:
  /// Connects and proves to know the secret. `memory` is what an earlier connection made, or
  /// nothing; `socket` the client's end. kNoDaemon, kDenied, kBadAbi, kOutOfMemory with a reason.
  static Status connect(const UcxContext& context, const RemoteStoreOptions& options,
                        std::shared_ptr<BridgeMemory>* memory, PacketSocket* socket,
                        std::unique_ptr<Bridge>* bridge, std::string* reason);

  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  ~Bridge() override;

 private:
  using Clock = Mirror::Clock;

  struct InFlight {
    nkv_daemon_submission submission{};
    std::uint64_t messages = 0;
  };

  /// The client's side, once there is one.
  struct Local {
    Local(const WindowLayout& wanted, SharedMemory memory)
        : layout(wanted),
          window(std::move(memory)),
          view(WindowView::make(window.bytes(), layout)),
          rings(view) {}

    WindowLayout layout;
    SharedMemory window;
    WindowView view;
    DaemonRings rings;
    FileDescriptor woken;        ///< End of a pipe: the client has submitted while this slept.
    FileDescriptor wake_client;  ///< End of a pipe.
  };

  Bridge(const RemoteStoreOptions& options, std::shared_ptr<BridgeMemory> memory);

  // LinkReceiver
  std::optional<Runs> place(std::span<const std::byte> header, std::size_t bytes) override;
  void landed(std::span<const std::byte> header, const Runs& data) override;
  // Mirror::Owner
  std::optional<std::span<std::byte>> place_of(const Entry& entry, std::size_t bytes) override;
  void take(const Entry& entry) override;

  Status shake_hands(Clock::time_point by, std::vector<std::byte>* theirs, std::string* reason);
  Status check_welcome(std::string* reason) const;
  Status make_memory(std::string* reason);
  void serve();
  [[nodiscard]] bool welcome_client();
  [[nodiscard]] bool take_submissions();
  [[nodiscard]] bool send(const nkv_daemon_submission& submission);
  [[nodiscard]] bool read_socket();
  [[nodiscard]] bool is_late() const;
  void sleep();

  RemoteStoreOptions options_;
  std::shared_ptr<BridgeMemory> memory_;
  std::optional<Proofs> proofs_;  ///< Once the server has sent its nonce.
  nkv_remote_hello welcome_{};
  PacketSocket socket_;
  FileDescriptor stop_fd_;  ///< An eventfd.
  std::unique_ptr<Local> local_;
  std::unique_ptr<Mirror> mirror_;
  std::map<std::uint64_t, InFlight> in_flight_;
  std::uint64_t unanswered_ = 0;  ///< Messages of what is in flight.
  Clock::time_point sent_ = Clock::now();
  std::optional<nkv_daemon_submission> held_;  ///< Too much is in flight for it to go.
  std::unique_ptr<Link> link_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace nearkv
