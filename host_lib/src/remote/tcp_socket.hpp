// Bytes on a TCP connection, in bounded time.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "file_descriptor.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// One end of a connection. Thread safety: one thread at a time, but for cut_off().
class TcpSocket {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  TcpSocket() = default;
  /// Of a descriptor that does not block.
  explicit TcpSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// kTimeout, kNoDaemon with a reason.
  static Status connect(const sockaddr_storage& address, Deadline deadline, TcpSocket* socket,
                        std::string* reason);

  /// All of `bytes`. kTimeout; kNoDaemon if the other end is gone.
  [[nodiscard]] Status send(std::span<const std::byte> bytes, Deadline deadline);

  /// As many bytes as `bytes` has. kTimeout; kNoDaemon if the other end sends less.
  [[nodiscard]] Status receive(std::span<std::byte> bytes, Deadline deadline);

  /// What comes until the other end has sent all. kTimeout; kNoDaemon; kBadArgument for more than
  /// `most_bytes`.
  [[nodiscard]] Status receive_rest(std::size_t most_bytes, std::vector<std::byte>* bytes,
                                    Deadline deadline);

  /// Tells the other end that it has got all.
  void end_sending() const { (void)::shutdown(fd_.get(), SHUT_WR); }

  /// Ends what any thread is waiting for, with kNoDaemon.
  void cut_off() const { (void)::shutdown(fd_.get(), SHUT_RDWR); }

 private:
  [[nodiscard]] Status receive_some(std::span<std::byte> bytes, Deadline deadline,
                                    std::size_t* received);
  [[nodiscard]] Status wait(short events, Deadline deadline) const;

  FileDescriptor fd_;
};

/// A listening socket that does not block, and its port. kIoError with a reason.
Status listen_tcp(const sockaddr_storage& address, FileDescriptor* listener, std::uint16_t* port,
                  std::string* reason);

}  // namespace nearkv
