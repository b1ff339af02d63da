// What the C API's functions share: failures as a negative errno and a line of text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "edge.hpp"

namespace nearkv {

/// Copies `text`, cut to `bytes` with its terminating zero. `out` may be null.
inline void copy_text(const std::string& text, char* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return;
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

/// Runs `body(&why)`, hands its reason out on failure, and returns a negative errno.
template <typename Body>
int report(char* reason, std::size_t reason_bytes, Body&& body) noexcept {
  const Status status = at_edge([&] {
    std::string why;
    const Status inner = body(&why);
    if (inner != Status::kOk) {
      copy_text(why.empty() ? std::string(message(inner)) : why, reason, reason_bytes);
    }
    return inner;
  });
  return to_errno(status);
}

}  // namespace nearkv
