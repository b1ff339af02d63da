// Keys as records keep them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nearkv/object_store.hpp"

namespace nearkv {

/// A key of at most NKV_OBJECT_KEY_BYTES as it is, padded with zeros; a longer one's SHA-256, with
/// length 0. Two keys are equal if and only if these are.
struct StoredKey {
  std::array<std::uint8_t, NKV_OBJECT_KEY_BYTES> bytes{};
  std::uint8_t length = 0;

  StoredKey() = default;
  explicit StoredKey(Key key);
  explicit StoredKey(const ObjectItem& item);
  explicit StoredKey(const nkv_object_record& record);

  /// The bytes that tell it from others of its length.
  [[nodiscard]] std::span<const std::byte> significant() const {
    return std::as_bytes(std::span(bytes).first(length == 0 ? bytes.size() : length));
  }

  /// Whether the record is that of this key in this namespace.
  [[nodiscard]] bool matches(const nkv_object_record& record, std::uint32_t namespace_number) const;
};

/// SHA-256 (FIPS 180-4).
[[nodiscard]] std::array<std::uint8_t, 32> sha256(std::span<const std::byte> bytes);

}  // namespace nearkv
