// The table of nearkv/device_plugin.h for a card: whatever has read_csr, write_csr, memory and
// wait.
#ifndef NEARKV_EMULATOR_DEVICE_PLUGIN_HPP_
#define NEARKV_EMULATOR_DEVICE_PLUGIN_HPP_

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nearkv/device_plugin.h"
#include "support/device_memory.hpp"

namespace nearkv::emulator {

/// Where an open() puts its one-line reason.
struct OpenError {
  char* text;
  size_t bytes;
};

/// Which memory a device has.
struct MemoryOptions {
  size_t bytes = kDefaultMemoryBytes;
  std::string file;  ///< If it is given, its size counts.

  /// Takes "memory=SIZE" and "file=PATH"; nothing if it is another option, false if it is wrong.
  std::optional<bool> take(std::string_view option) {
    constexpr std::string_view kSize = "memory=";
    constexpr std::string_view kFile = "file=";
    if (option.starts_with(kFile)) {
      file = option.substr(kFile.size());
      return !file.empty();
    }
    if (!option.starts_with(kSize)) return std::nullopt;
    const auto size = parse_memory_size(option.substr(kSize.size()));
    if (size) bytes = *size;
    return size.has_value();
  }
};

/// Memory of a device of scheme `scheme`; null with the reason told if it cannot be had.
inline std::unique_ptr<DeviceMemory> make_memory(const char* scheme, const MemoryOptions& options,
                                                 OpenError error) {
  const bool is_file = !options.file.empty();
  auto memory = is_file ? DeviceMemory::map(options.file) : DeviceMemory::allocate(options.bytes);
  if (memory != nullptr) return memory;
  if (is_file) {
    std::snprintf(error.text, error.bytes,
                  "%s: %s is no file of whole pages that can be read and written", scheme,
                  options.file.c_str());
  } else {
    std::snprintf(error.text, error.bytes, "%s: cannot allocate %zu bytes of device memory", scheme,
                  options.bytes);
  }
  return nullptr;
}

/// The table of a plug-in whose devices are Cards that `open` makes.
template <typename Card>
constexpr nkv_device_plugin plugin_of(void* (*open)(const char*, char*, size_t)) {
  return {
      .version = NKV_DEVICE_PLUGIN_VERSION,
      .open = open,
      .close = [](void* device) { const std::unique_ptr<Card> closed(static_cast<Card*>(device)); },
      .read_csr = [](void* device, uint32_t offset) -> uint64_t {
        return static_cast<Card*>(device)->read_csr(offset);
      },
      .write_csr = [](void* device, uint32_t offset,
                      uint64_t value) { static_cast<Card*>(device)->write_csr(offset, value); },
      .memory = [](void* device, size_t* bytes) -> void* {
        const std::span<std::byte> place = static_cast<Card*>(device)->memory();
        *bytes = place.size();
        return place.data();
      },
      .wait = [](void* device, int64_t timeout_ns) -> int {
        const std::chrono::nanoseconds timeout(std::max<int64_t>(timeout_ns, 0));
        return static_cast<Card*>(device)->wait(timeout) ? 0 : -ETIMEDOUT;
      }};
}

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_DEVICE_PLUGIN_HPP_
