// Keys of sealed objects: where they come from and how they are kept.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "nearkv/status.hpp"

namespace nearkv {

/// 256 bits in memory that is locked and kept out of core dumps as far as the system allows, and
/// wiped when the key goes. Movable; a key that was moved from, or not yet filled, is empty.
class SecretKey {
 public:
  static constexpr std::size_t kBytes = 32;

  SecretKey() = default;
  SecretKey(SecretKey&& other) noexcept;
  SecretKey& operator=(SecretKey&& other) noexcept;
  SecretKey(const SecretKey&) = delete;
  SecretKey& operator=(const SecretKey&) = delete;
  ~SecretKey();

  /// A copy of `bytes`, which the caller wipes; kOutOfMemory.
  static Status copy_of(std::span<const std::byte, kBytes> bytes, SecretKey* key);

  /// Reads a master key: a regular file of exactly 32 bytes that belongs to this user and that
  /// nobody else may read or write (mode 0600 or less). kBadArgument or kIoError, with `reason`,
  /// if it is not.
  static Status load(const std::string& path, SecretKey* key, std::string* reason);

  /// The key of one tenant: HKDF-SHA256 (RFC 5869) of the master key, without salt. kBadArgument if
  /// that is empty.
  static Status derive(const SecretKey& master, std::string_view tenant, SecretKey* key);

  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  static Status allocate(SecretKey* key);

  std::span<std::byte> bytes_;
};

}  // namespace nearkv
