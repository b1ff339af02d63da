// Bytes that a command read, by stage (ARITHMETIC.md 9).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nkv_abi.h"

namespace nearkv {

struct Traffic {
  std::uint64_t stream = 0;  ///< All in bursts.
  std::uint64_t refine = 0;
  std::uint64_t exact = 0;
  std::uint64_t value = 0;

  Traffic& operator+=(const Traffic& other) {
    stream += other.stream;
    refine += other.refine;
    exact += other.exact;
    value += other.value;
    return *this;
  }
  [[nodiscard]] std::uint64_t total() const { return stream + refine + exact + value; }
};

/// Bursts of `bytes` bytes from a burst boundary.
[[nodiscard]] inline std::uint64_t bursts(std::uint64_t bytes) {
  return (bytes + NKV_BURST_BYTES - 1) / NKV_BURST_BYTES;
}

/// Bursts that hold the rows of the tokens in `wanted`, `row_bytes` each from a burst boundary.
[[nodiscard]] inline std::uint64_t row_bursts(std::uint64_t wanted, std::size_t row_bytes) {
  std::uint64_t count = 0;
  std::uint64_t next = 0;  // First burst not counted yet.
  for (; wanted != 0; wanted &= wanted - 1) {
    const auto token = static_cast<std::uint64_t>(__builtin_ctzll(wanted));
    const std::uint64_t first = token * row_bytes / NKV_BURST_BYTES;
    const std::uint64_t end = bursts((token + 1) * row_bytes);
    const std::uint64_t from = first > next ? first : next;
    if (end > from) count += end - from;
    next = end;
  }
  return count;
}

}  // namespace nearkv
