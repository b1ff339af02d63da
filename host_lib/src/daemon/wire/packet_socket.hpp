// Messages with descriptors on a Unix socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "file_descriptor.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Who is at the other end, by the kernel's word.
struct Peer {
  pid_t process = 0;
  uid_t user = 0;
  std::vector<gid_t> groups;  ///< The main one first.
};

/// One end of a SOCK_SEQPACKET connection. Thread safety: one thread at a time.
class PacketSocket {
 public:
  static constexpr std::size_t kMostDescriptors = 4;

  PacketSocket() = default;
  explicit PacketSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// kNoDaemon with a reason that says what to do.
  static Status connect(const std::string& path, PacketSocket* socket, std::string* reason);

  [[nodiscard]] int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }

  [[nodiscard]] Status peer(Peer* peer) const;

  /// Never blocks: kQueueFull if the other end does not read, kNoDaemon if it is gone.
  [[nodiscard]] Status send(std::span<const std::byte> message, std::span<const int> fds = {});

  /// Receives one message of exactly `message.size()` bytes and the descriptors that it carries, at
  /// most kMostDescriptors. kTimeout; kNoDaemon if the other end is gone; kBadArgument for a
  /// message of another size.
  [[nodiscard]] Status receive(std::span<std::byte> message, std::vector<FileDescriptor>* fds,
                               std::chrono::milliseconds timeout);

 private:
  FileDescriptor fd_;
};

/// A message as bytes.
template <typename Message>
[[nodiscard]] std::span<const std::byte> bytes_of_message(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}
template <typename Message>
[[nodiscard]] std::span<std::byte> writable_message(Message* message) {
  return std::as_writable_bytes(std::span(message, 1));
}

/// kBadArgument, and a reason, for a path that is too long for a socket.
Status check_socket_path(const std::string& path, std::string* reason);

/// A listening socket at `path`, in place of what a dead daemon left there. kBusy if somebody
/// listens already; kIoError.
Status listen_at(const std::string& path, mode_t mode, FileDescriptor* listener,
                 std::string* reason);

}  // namespace nearkv
