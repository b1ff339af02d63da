// Device memory of software devices: anonymous pages, a file, or a DAX device.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "forks.hpp"
#include "nearkv/device.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Size of a character device-dax, from sysfs; 0 if it is none.
[[nodiscard]] std::uint64_t dax_bytes(const struct stat& info);

/// A mapping, unmapped on destruction. A file's or DAX device's contents outlive it; meanwhile no
/// other Memory maps it, of this process or another, by whatever path.
class Memory {
 public:
  struct Options {
    std::string path;         ///< Empty: anonymous. A DAX device, or a file (created if absent).
    std::uint64_t bytes = 0;  ///< 0: the size of what `path` names. Rounded up to whole huge pages.
    int node = -1;            ///< NUMA node to prefer; -1: the kernel's choice.
    bool huge = true;         ///< Ask for transparent huge pages.
  };

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  /// kBusy while somebody else has the file, kIoError, kOutOfMemory or kBadUri, with a `reason`
  /// that says what to do. A file that was made for a mapping that failed is taken away again.
  static Status map(const Options& options, Memory* memory, std::string* reason);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] Durability durability() const { return durability_; }

 private:
  LockDescriptor lock_;
  std::span<std::byte> bytes_;
  Durability durability_ = Durability::kNone;
};

}  // namespace nearkv
