#include "xrt/simulator/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "simulator/messages.pb.h"

namespace nearkv::hw_emu {

namespace {

constexpr std::size_t kRequestHeaderBytes = 14;
// The largest body that can be meant: one of the shim's packets is a few MiB.
constexpr std::uint64_t kMaxBodyBytes = std::uint64_t{1} << 30;

}  // namespace

std::unique_ptr<Channel> Channel::connect(const std::string& path,
                                          std::chrono::milliseconds timeout,
                                          const std::function<bool()>& is_there) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return nullptr;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return nullptr;
    if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      return std::unique_ptr<Channel>(new Channel(made));
    }
    ::close(made);
    if (!is_there() || std::chrono::steady_clock::now() >= end) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Channel::~Channel() { ::close(socket_); }

bool Channel::has_input(std::chrono::milliseconds wait) const {
  pollfd input{.fd = socket_, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, static_cast<int>(wait.count())) > 0;
}

bool Channel::read(void* data, std::size_t bytes) const {
  auto* place = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(socket_, place, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool Channel::write(const std::string& data) const {
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t put = ::send(socket_, data.data() + done, data.size() - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

bool Channel::receive(Request* request) {
  std::array<char, kRequestHeaderBytes> raw{};
  RequestHeader header;
  if (!read(raw.data(), raw.size())) return false;
  if (!header.ParseFromArray(raw.data(), static_cast<int>(raw.size()))) return false;
  if (header.size() > kMaxBodyBytes) return false;
  request->call = header.call();
  request->body.resize(header.size());
  return read(request->body.data(), request->body.size());
}

bool Channel::reply(const google::protobuf::MessageLite& body) {
  ReplyHeader header;
  header.set_size(body.ByteSizeLong());
  return write(header.SerializeAsString() + body.SerializeAsString());
}

bool Channel::tell(std::uint32_t call) {
  RequestHeader header;
  header.set_size(0);
  header.set_call(call);
  return write(header.SerializeAsString());
}

bool Channel::ask(std::uint32_t call, const google::protobuf::MessageLite& body,
                  google::protobuf::MessageLite* reply) {
  RequestHeader header;
  header.set_size(body.ByteSizeLong());
  header.set_call(call);
  if (!write(header.SerializeAsString() + body.SerializeAsString())) return false;
  // These replies have a header like requests.
  Request answer;
  return receive(&answer) && reply->ParseFromString(answer.body);
}

}  // namespace nearkv::hw_emu
