// What the C API's functions share: failures as a negative errno and a line of text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "edge.hpp"

namespace nearkv {

/// Copies `text`, cut to `bytes` with its terminating zero. `out` may be null.
inline void copy_text(std::string_view text, char* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return;
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

/// Runs `body(&why)`, hands its reason out on failure, and returns a negative errno.
template <typename Body>
int report(char* reason, std::size_t reason_bytes, Body&& body) noexcept {
  std::string why;
  const Status status = at_edge([&] { return body(&why); });
  if (status != Status::kOk) {
    copy_text(why.empty() ? message(status) : std::string_view(why), reason, reason_bytes);
  }
  return to_errno(status);
}

}  // namespace nearkv
