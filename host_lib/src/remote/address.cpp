#include "remote/address.hpp"

#include <netdb.h>

#include <cstring>
#include <memory>

namespace nearkv {

Status parse_address(const std::string& text, sockaddr_storage* address, std::string* reason) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    *reason = "'" + text + "' is no HOST:PORT";
    return Status::kBadUri;
  }
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &found);
  if (failed != 0) {
    *reason = text + ": " + ::gai_strerror(failed);
    return Status::kBadUri;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  *address = sockaddr_storage();
  std::memcpy(address, found->ai_addr, found->ai_addrlen);
  return Status::kOk;
}

}  // namespace nearkv
