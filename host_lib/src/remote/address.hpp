// "HOST:PORT", as people write it.
#pragma once

#include <sys/socket.h>

#include <string>

#include "nearkv/status.hpp"

namespace nearkv {

/// Looks up "HOST:PORT" or "[HOST]:PORT". kBadUri with a reason.
Status parse_address(const std::string& text, sockaddr_storage* address, std::string* reason);

}  // namespace nearkv
