#include "remote/tcp_socket.hpp"

#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "daemon/wire/poll_time.hpp"

namespace nearkv {
namespace {

socklen_t size_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

const sockaddr* generic(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

FileDescriptor make_socket(const sockaddr_storage& address) {
  return FileDescriptor(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Status TcpSocket::connect(const sockaddr_storage& address, Deadline deadline, TcpSocket* socket,
                          std::string* reason) {
  TcpSocket made(make_socket(address));
  int error = 0;
  if (!made.fd_ || ::connect(made.fd_.get(), generic(address), size_of(address)) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    if (made.wait(POLLOUT, deadline) != Status::kOk) {
      *reason = "no connection in time";
      return Status::kTimeout;
    }
    socklen_t bytes = sizeof(error);
    if (::getsockopt(made.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  }
  if (error != 0) {
    *reason = std::strerror(error);
    return Status::kNoDaemon;
  }
  *socket = std::move(made);
  return Status::kOk;
}

Status TcpSocket::wait(short events, Deadline deadline) const {
  while (true) {
    pollfd ready{fd_.get(), events, 0};
    const int count = ::poll(&ready, 1, poll_ms(deadline));
    if (count > 0) return Status::kOk;
    if (count == 0 && std::chrono::steady_clock::now() >= deadline) return Status::kTimeout;
    if (count < 0 && errno != EINTR) return Status::kIoError;
  }
}

Status TcpSocket::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return Status::kNoDaemon;
    if (const Status status = wait(POLLOUT, deadline); status != Status::kOk) return status;
  }
  return Status::kOk;
}

Status TcpSocket::receive_some(std::span<std::byte> bytes, Deadline deadline,
                               std::size_t* received) {
  while (true) {
    const Status status = wait(POLLIN, deadline);
    if (status != Status::kOk) return status;
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got >= 0) {
      *received = static_cast<std::size_t>(got);
      return Status::kOk;
    }
    if (errno != EAGAIN && errno != EINTR) return Status::kNoDaemon;
  }
}

Status TcpSocket::receive(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    std::size_t received = 0;
    const Status status = receive_some(bytes, deadline, &received);
    if (status != Status::kOk) return status;
    if (received == 0) return Status::kNoDaemon;
    bytes = bytes.subspan(received);
  }
  return Status::kOk;
}

Status TcpSocket::receive_rest(std::size_t most_bytes, std::vector<std::byte>* bytes,
                               Deadline deadline) {
  bytes->resize(most_bytes + 1);
  std::size_t so_far = 0;
  while (so_far <= most_bytes) {
    std::size_t received = 0;
    const Status status = receive_some(std::span(*bytes).subspan(so_far), deadline, &received);
    if (status != Status::kOk) return status;
    if (received == 0) {
      bytes->resize(so_far);
      return Status::kOk;
    }
    so_far += received;
  }
  return Status::kBadArgument;
}

Status listen_tcp(const sockaddr_storage& address, FileDescriptor* listener, std::uint16_t* port,
                  std::string* reason) {
  FileDescriptor made = make_socket(address);
  // A server that is started anew takes its port again.
  const int reuse = 1;
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
      ::bind(made.get(), generic(address), size_of(address)) != 0 ||
      ::listen(made.get(), SOMAXCONN) != 0 ||
      ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    *reason = std::strerror(errno);
    return Status::kIoError;
  }
  *listener = std::move(made);
  *port = port_of(bound);
  return Status::kOk;
}

}  // namespace nearkv
