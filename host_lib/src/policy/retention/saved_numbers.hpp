// Numbers as bytes, for what a restart has to find again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "page/checksum.hpp"

namespace nearkv {

/// Puts numbers at the beginning of `to`, and takes their bytes off it.
template <typename T>
void put(std::span<const T> numbers, std::span<std::byte>* to) {
  if (numbers.empty()) return;
  std::memcpy(to->data(), numbers.data(), numbers.size_bytes());
  *to = to->subspan(numbers.size_bytes());
}

/// Takes as many numbers as there is room for; `from` has them.
template <typename T>
void take(std::span<const std::byte>* from, std::span<T> numbers) {
  if (numbers.empty()) return;
  std::memcpy(numbers.data(), from->data(), numbers.size_bytes());
  *from = from->subspan(numbers.size_bytes());
}

/// Of a header, its `crc` taken as 0, and what comes behind it.
template <typename Header>
std::uint32_t saved_checksum(Header header, std::span<const std::byte> rest) {
  static_assert(std::has_unique_object_representations_v<Header>, "no copy keeps what pads it");
  header.crc = 0;
  return crc32c(rest, crc32c(std::as_bytes(std::span(&header, 1))));
}

}  // namespace nearkv
