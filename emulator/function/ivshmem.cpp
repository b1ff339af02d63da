#include "function/ivshmem.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace nearkv::emulator {
namespace {

constexpr std::int64_t kProtocolVersion = 0;
constexpr std::int64_t kSharedMemory = -1;
constexpr std::int64_t kDevicePeer = 0;
constexpr std::int64_t kGuestPeer = 1;

FileDescriptor make_event() { return FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

bool is_socket(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

FileDescriptor bind_socket(const std::string& path) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return {};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  // A socket that a dead process left refuses, as plain files do; one that answers is somebody's.
  const FileDescriptor trial(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(trial.get(), where, sizeof(address)) == 0) {
    errno = EADDRINUSE;
    return {};
  }
  if (errno == ECONNREFUSED && is_socket(path)) ::unlink(path.c_str());
  if (::bind(socket.get(), where, sizeof(address)) != 0 || ::listen(socket.get(), 1) != 0) {
    return {};
  }
  return socket;
}

}  // namespace

std::unique_ptr<IvshmemServer> IvshmemServer::listen(const std::string& path,
                                                     std::size_t shared_bytes, unsigned vectors,
                                                     std::string* reason) {
  FileDescriptor listener = bind_socket(path);
  if (!listener) {
    *reason = path + ": " + std::strerror(errno);
    return nullptr;
  }
  FileDescriptor file(::memfd_create("nearkv-function", MFD_CLOEXEC));
  std::unique_ptr<DeviceMemory> shared;
  if (file && ::ftruncate(file.get(), static_cast<off_t>(shared_bytes)) == 0) {
    shared = DeviceMemory::map("/proc/self/fd/" + std::to_string(file.get()));
  }
  if (shared == nullptr) {
    *reason = std::string("no shared memory: ") + std::strerror(errno);
    return nullptr;
  }
  return std::unique_ptr<IvshmemServer>(
      new IvshmemServer(path, std::move(listener), std::move(file), std::move(shared), vectors));
}

IvshmemServer::IvshmemServer(std::string path, FileDescriptor listener, FileDescriptor file,
                             std::unique_ptr<DeviceMemory> shared, unsigned vectors)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      file_(std::move(file)),
      shared_(std::move(shared)),
      interrupts_(vectors) {}

IvshmemServer::~IvshmemServer() { ::unlink(path_.c_str()); }

void IvshmemServer::interrupt(unsigned vector) {
  if (guest_) ::eventfd_write(interrupts_.at(vector).get(), 1);
}

bool IvshmemServer::send(std::int64_t message, const FileDescriptor* descriptor) const {
  std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  iovec text{.iov_base = &message, .iov_len = sizeof(message)};
  msghdr header{};
  header.msg_iov = &text;
  header.msg_iovlen = 1;
  if (descriptor != nullptr) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = descriptor->get();
    std::memcpy(CMSG_DATA(part), &number, sizeof(number));
  }
  return ::sendmsg(guest_.get(), &header, MSG_NOSIGNAL) == sizeof(message);
}

void IvshmemServer::welcome() {
  guest_ = FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  rung_ = make_event();
  for (FileDescriptor& event : interrupts_) event = make_event();
  bool is_sent = send(kProtocolVersion) && send(kGuestPeer) && send(kSharedMemory, &file_) &&
                 send(kDevicePeer, &rung_);
  for (const FileDescriptor& event : interrupts_) is_sent = is_sent && send(kGuestPeer, &event);
  if (!is_sent) guest_ = {};
}

void IvshmemServer::serve(std::chrono::nanoseconds patience) {
  std::array<pollfd, 3> events{{{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                                {.fd = guest_.get(), .events = POLLIN, .revents = 0},
                                {.fd = rung_.get(), .events = POLLIN, .revents = 0}}};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (patience - seconds).count()};
  if (::ppoll(events.data(), events.size(), &limit, nullptr) <= 0) return;
  eventfd_t ignored = 0;
  if ((events[2].revents & POLLIN) != 0) ::eventfd_read(rung_.get(), &ignored);
  // QEMU never writes: it has gone.
  if (events[1].revents != 0) guest_ = {};
  if ((events[0].revents & POLLIN) != 0) welcome();
}

}  // namespace nearkv::emulator
