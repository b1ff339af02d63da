// Device memory of an emulated card, and how its size stands in a URI.
#ifndef NEARKV_EMULATOR_DEVICE_MEMORY_HPP_
#define NEARKV_EMULATOR_DEVICE_MEMORY_HPP_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace nearkv::emulator {

/// Device memory: zeroed, and taken from the system page by page as it is touched.
class DeviceMemory {
 public:
  /// Null if the system does not grant the size.
  static std::unique_ptr<DeviceMemory> allocate(size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit DeviceMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

/// "64MiB" → bytes; a whole, positive number of 4 KiB pages.
std::optional<size_t> parse_memory_size(std::string_view text);

inline constexpr size_t kDefaultMemoryBytes = size_t{256} << 20;

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_DEVICE_MEMORY_HPP_
