// The sizes of pages of this machine's memory, which are not pages of tokens.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace nearkv {

inline constexpr std::uint64_t kHugePageBytes = 2ULL << 20;

[[nodiscard]] inline std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace nearkv
