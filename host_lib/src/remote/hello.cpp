#include "remote/hello.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kMostAddressBytes = 16 << 10;  // Some tens for each device and transport.

}  // namespace

Status send_hello(TcpSocket* socket, nkv_remote_hello hello, TcpSocket::Deadline by,
                  std::span<const std::byte> address) {
  hello.magic = NKV_REMOTE_MAGIC;
  hello.version = NKV_REMOTE_VERSION;
  const auto message = std::as_bytes(std::span(&hello, 1));
  std::vector<std::byte> bytes(message.begin(), message.end());
  bytes.insert(bytes.end(), address.begin(), address.end());
  const Status status = socket->send(bytes, by);
  if (!address.empty()) socket->end_sending();
  return status;
}

Status receive_hello(TcpSocket* socket, nkv_remote_hello* hello, TcpSocket::Deadline by) {
  const Status status = socket->receive(std::as_writable_bytes(std::span(hello, 1)), by);
  if (status != Status::kOk) return status;
  return hello->magic == NKV_REMOTE_MAGIC ? Status::kOk : Status::kBadArgument;
}

Status receive_address(TcpSocket* socket, std::vector<std::byte>* address, TcpSocket::Deadline by) {
  const Status status = socket->receive_rest(kMostAddressBytes, address, by);
  return status == Status::kOk && address->empty() ? Status::kBadArgument : status;
}

}  // namespace nearkv
