// A device in a shared object, found by its URI scheme.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "nearkv/device.hpp"
#include "nearkv/device_plugin.h"

namespace nearkv {

class PluginDevice final : public Device {
 public:
  /// Loads libnearkv_SCHEME.so from NEARKV_PLUGIN_PATH (colon-separated folders) or from beside
  /// this library, and hands it `arguments`, what follows the colon.
  static Status open(const std::string& scheme, const std::string& arguments,
                     std::unique_ptr<Device>* device, std::string* reason);

  ~PluginDevice() override;

  std::uint64_t read_csr(std::uint32_t offset) override;
  void write_csr(std::uint32_t offset, std::uint64_t value) override;
  std::span<std::byte> memory() override;
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override;

 private:
  PluginDevice(const nkv_device_plugin* plugin, void* device) : plugin_(plugin), device_(device) {}

  const nkv_device_plugin* plugin_;
  void* device_;
  std::mutex mutex_;  ///< The table promises one thread at a time only.
};

}  // namespace nearkv
