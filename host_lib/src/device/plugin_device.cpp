#include "device/plugin_device.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

namespace nearkv {
namespace {

/// Folders to look in, first the user's.
std::vector<std::filesystem::path> plugin_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* const path = std::getenv("NEARKV_PLUGIN_PATH"); path != nullptr) {
    std::stringstream parts{std::string(path)};
    for (std::string part; std::getline(parts, part, ':');) folders.emplace_back(part);
  }
  Dl_info info{};
  // Any address of this library tells where it was loaded from.
  if (::dladdr(reinterpret_cast<void*>(&PluginDevice::open), &info) != 0 &&
      info.dli_fname != nullptr) {
    folders.push_back(std::filesystem::absolute(info.dli_fname).parent_path());
  }
  return folders;
}

const nkv_device_plugin* load_plugin(const std::string& scheme, std::string* reason) {
  const std::string name = "libnearkv_" + scheme + ".so";
  for (const std::filesystem::path& folder : plugin_folders()) {
    const std::filesystem::path file = folder / name;
    std::error_code unreadable;
    if (!std::filesystem::exists(file, unreadable)) continue;
    // Never unloaded: a simulator's static state does not survive that.
    void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      *reason = ::dlerror();
      return nullptr;
    }
    using Entry = const nkv_device_plugin* (*)();
    const auto entry = reinterpret_cast<Entry>(::dlsym(handle, "nkv_plugin_entry"));
    const nkv_device_plugin* const plugin = entry != nullptr ? entry() : nullptr;
    if (plugin == nullptr || plugin->version != NKV_DEVICE_PLUGIN_VERSION) {
      *reason = file.string() + " is not a device plug-in of this library's version; rebuild it";
      return nullptr;
    }
    return plugin;
  }
  *reason = "no device for scheme '" + scheme + "': " + name +
            " is neither beside the library nor in NEARKV_PLUGIN_PATH";
  return nullptr;
}

}  // namespace

Status PluginDevice::open(const std::string& scheme, const std::string& arguments,
                          std::unique_ptr<Device>* device, std::string* reason) {
  const nkv_device_plugin* const plugin = load_plugin(scheme, reason);
  if (plugin == nullptr) return Status::kNoDevice;
  std::array<char, 256> error{};
  void* const opened = plugin->open(arguments.c_str(), error.data(), error.size());
  if (opened == nullptr) {
    *reason = scheme + ": " + error.data();
    return Status::kNoDevice;
  }
  device->reset(new PluginDevice(plugin, opened));
  return Status::kOk;
}

PluginDevice::~PluginDevice() { plugin_->close(device_); }

std::uint64_t PluginDevice::read_csr(std::uint32_t offset) {
  const std::scoped_lock lock(mutex_);
  return plugin_->read_csr(device_, offset);
}

void PluginDevice::write_csr(std::uint32_t offset, std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  plugin_->write_csr(device_, offset, value);
}

std::span<std::byte> PluginDevice::memory() {
  std::size_t bytes = 0;
  auto* const start = static_cast<std::byte*>(plugin_->memory(device_, &bytes));
  return {start, bytes};
}

Status PluginDevice::wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) {
  ++*epoch;
  return plugin_->wait(device_, timeout.count()) == 0 ? Status::kOk : Status::kTimeout;
}

}  // namespace nearkv
