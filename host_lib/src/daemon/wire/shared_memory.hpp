// Memory that a daemon and a client both map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "file_descriptor.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// A shared mapping of a memfd, unmapped on destruction.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMemory();

  /// A new memfd that can neither shrink nor grow, and a mapping of all of it.
  static Status create(std::uint64_t bytes, FileDescriptor* fd, SharedMemory* memory);

  /// Maps a part of a memfd. kOutOfMemory.
  static Status map(int fd, std::uint64_t offset, std::uint64_t bytes, SharedMemory* memory);

  /// The same for a memfd that nobody trusts: kBadArgument unless it holds the whole part and can
  /// never hold less, so that touching the mapping cannot fault.
  static Status map_foreign(int fd, std::uint64_t offset, std::uint64_t bytes,
                            SharedMemory* memory);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace nearkv
