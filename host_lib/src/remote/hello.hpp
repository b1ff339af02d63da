// How a connection opens, over TCP and before UCX: four messages, and after PROOF and WELCOME,
// which are each side's last, the address of its worker.
#pragma once

#include <optional>
#include <span>

#include "nkv_abi.h"
#include "remote/tcp_socket.hpp"

namespace nearkv {

/// As send() and end_sending(), where `address` is not empty.
[[nodiscard]] Status send_hello(TcpSocket* socket, nkv_remote_hello hello, TcpSocket::Deadline by,
                                std::span<const std::byte> address = {});

/// As receive(); kBadArgument if it is none.
[[nodiscard]] Status receive_hello(TcpSocket* socket, nkv_remote_hello* hello,
                                   TcpSocket::Deadline by);

/// The other side's, after its last message. As receive_rest(); kBadArgument if there is none.
[[nodiscard]] Status receive_address(TcpSocket* socket, std::vector<std::byte>* address,
                                     TcpSocket::Deadline by);

}  // namespace nearkv
