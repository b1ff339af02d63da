// Elements as bytes in memory, and as the 16-bit words that codecs work on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace nearkv::codec {

static_assert(std::endian::native == std::endian::little, "formats are little endian");

/// `bytes` holds words.size() elements of one or two bytes.
inline void widen_elements(std::span<const std::byte> bytes, std::span<std::uint16_t> words) {
  if (bytes.size() == words.size_bytes()) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = std::to_integer<std::uint16_t>(bytes[i]);
}

inline void narrow_elements(std::span<const std::uint16_t> words, std::span<std::byte> bytes) {
  if (bytes.size() == words.size_bytes()) {
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < words.size(); ++i) bytes[i] = static_cast<std::byte>(words[i]);
}

template <typename T>
[[nodiscard]] T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace nearkv::codec
