#include "daemon/wire/packet_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace nearkv {
namespace {

std::string error_text() { return std::strerror(errno); }

Status make_address(const std::string& path, sockaddr_un* address, std::string* reason) {
  address->sun_family = AF_UNIX;
  if (const Status status = check_socket_path(path, reason); status != Status::kOk) return status;
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  return Status::kOk;
}

FileDescriptor make_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool connect_to(const FileDescriptor& fd, const sockaddr_un& address) {
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

Status check_socket_path(const std::string& path, std::string* reason) {
  constexpr std::size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1;
  if (!path.empty() && path.size() <= kMostBytes) return Status::kOk;
  *reason = "'" + path + "' has " + std::to_string(path.size()) +
            " bytes; a socket's path may have 1 to " + std::to_string(kMostBytes);
  return Status::kBadArgument;
}

Status PacketSocket::connect(const std::string& path, PacketSocket* socket, std::string* reason) {
  sockaddr_un address{};
  if (const Status status = make_address(path, &address, reason); status != Status::kOk) {
    return status;
  }
  FileDescriptor fd = make_socket();
  if (!fd || !connect_to(fd, address)) {
    *reason = path + ": " + error_text() +
              (errno == EACCES ? "; ask whoever runs the daemon for the socket's group"
                               : "; start the daemon (nearkv serve), or name its socket");
    return errno == EACCES ? Status::kDenied : Status::kNoDaemon;
  }
  *socket = PacketSocket(std::move(fd));
  return Status::kOk;
}

Status PacketSocket::peer(Peer* peer) const {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return Status::kIoError;
  }
  peer->process = credentials.pid;
  peer->user = credentials.uid;
  peer->groups.resize(1024);
  bytes = static_cast<socklen_t>(peer->groups.size() * sizeof(gid_t));
  // Fails for a peer in more groups than that; then the main one has to do.
  const bool known =
      ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERGROUPS, peer->groups.data(), &bytes) == 0;
  peer->groups.resize(known ? bytes / sizeof(gid_t) : 0);
  peer->groups.insert(peer->groups.begin(), credentials.gid);
  return Status::kOk;
}

Status PacketSocket::send(std::span<const std::byte> message, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Status::kOk;
  return errno == EAGAIN ? Status::kQueueFull : Status::kNoDaemon;
}

Status PacketSocket::receive(std::span<std::byte> message, std::vector<FileDescriptor>* fds,
                             std::chrono::milliseconds timeout) {
  pollfd ready{fd_.get(), POLLIN, 0};
  const int count = ::poll(&ready, 1, static_cast<int>(timeout.count()));
  if (count == 0 || (count < 0 && errno == EINTR)) return Status::kTimeout;
  iovec part{message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t received = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0 && errno == EAGAIN) return Status::kTimeout;
  if (received <= 0) return Status::kNoDaemon;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr;
       rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t passed = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::array<int, kMostDescriptors> numbers{};
    std::memcpy(numbers.data(), CMSG_DATA(rights), passed * sizeof(int));
    for (std::size_t i = 0; i < passed; ++i) fds->emplace_back(numbers[i]);
  }
  const bool whole = static_cast<std::size_t>(received) == message.size() &&
                     (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole ? Status::kOk : Status::kBadArgument;
}

Status listen_at(const std::string& path, mode_t mode, FileDescriptor* listener,
                 std::string* reason) {
  sockaddr_un address{};
  if (const Status status = make_address(path, &address, reason); status != Status::kOk) {
    return status;
  }
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      *reason = path + ": is there and no socket; remove it or choose another path";
      return Status::kIoError;
    }
    const FileDescriptor probe = make_socket();
    if (connect_to(probe, address) || errno == EAGAIN) {
      *reason = path + ": another daemon listens there; stop it or choose another path";
      return Status::kBusy;
    }
    ::unlink(path.c_str());
  }
  FileDescriptor fd = make_socket();
  // Nobody may connect before the mode is what it shall be.
  const mode_t before = ::umask(0777);
  const bool bound =
      fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::umask(before);
  if (!bound || ::chmod(path.c_str(), mode) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    *reason = path + ": " + error_text();
    return Status::kIoError;
  }
  *listener = std::move(fd);
  return Status::kOk;
}

}  // namespace nearkv
