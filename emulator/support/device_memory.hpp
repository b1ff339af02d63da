// Device memory of an emulated card, and how its size stands in a URI.
#ifndef NEARKV_EMULATOR_DEVICE_MEMORY_HPP_
#define NEARKV_EMULATOR_DEVICE_MEMORY_HPP_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nearkv::emulator {

/// Device memory: taken from the system page by page as it is touched.
class DeviceMemory {
 public:
  /// Zeroed; null if the system does not grant the size.
  static std::unique_ptr<DeviceMemory> allocate(size_t bytes);
  /// A file that others may have mapped too, all of it; null if there is none, or it is not a whole
  /// number of 4 KiB pages.
  static std::unique_ptr<DeviceMemory> map(const std::string& path);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit DeviceMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

/// Calls take("name=value") for each option of "?option&option", or nothing; false if the text is
/// not of this form, or take() says so.
bool take_options(std::string_view arguments, const std::function<bool(std::string_view)>& take);

/// "64MiB" → bytes; a whole, positive number of 4 KiB pages.
std::optional<size_t> parse_memory_size(std::string_view text);

inline constexpr size_t kDefaultMemoryBytes = size_t{256} << 20;

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_DEVICE_MEMORY_HPP_
