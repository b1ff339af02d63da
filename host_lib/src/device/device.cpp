#include "nearkv/device.hpp"

#include <cstdio>
#include <memory>
#include <utility>

#include "device/cpu_device.hpp"
#include "device/linux_device.hpp"
#include "device/plugin_device.hpp"
#include "device/process_bound_device.hpp"
#include "device/uri.hpp"
#include "edge.hpp"
#include "nearkv/in_place.hpp"
#include "nkv_abi.h"

namespace nearkv {
namespace {

/// Refuses a device that is none of ours, or of another major ABI.
Status check_abi(Device* device, const std::string& uri, std::string* reason) {
  const std::uint64_t id = device->read_csr(NKV_REG_ID);
  if (id != NKV_ABI_ID) {
    char text[32];
    std::snprintf(text, sizeof(text), "0x%016llx", static_cast<unsigned long long>(id));
    *reason = uri + ": not a NearKV device (ID register reads " + text + ")";
    return Status::kBadAbi;
  }
  const std::uint64_t abi = device->read_csr(NKV_REG_ABI);
  const std::uint64_t major = (abi & NKV_REG_ABI_MAJOR_MASK) >> NKV_REG_ABI_MAJOR_SHIFT;
  if (major != NKV_ABI_MAJOR) {
    *reason = uri + ": the device speaks ABI " + std::to_string(major) + ", this library " +
              std::to_string(NKV_ABI_MAJOR) + "; update the older of the two";
    return Status::kBadAbi;
  }
  return Status::kOk;
}

Status open_any(std::string_view uri, std::unique_ptr<Device>* device, std::string* reason) {
  DeviceUri parsed;
  Status status = parse_device_uri(uri, &parsed, reason);
  if (status != Status::kOk) return status;
  std::unique_ptr<Device> opened;
  if (parsed.scheme == "cpu") {
    status = CpuDevice::open(std::move(parsed), &opened, reason);
  } else if (parsed.scheme == "linux") {
    status = LinuxDevice::open(std::move(parsed), &opened, reason);
  } else {
    const std::string arguments(uri.substr(uri.find(':') + 1));
    status = PluginDevice::open(parsed.scheme, arguments, &opened, reason);
  }
  if (status == Status::kOk) status = check_abi(opened.get(), std::string(uri), reason);
  if (status == Status::kOk) *device = std::make_unique<ProcessBoundDevice>(std::move(opened));
  return status;
}

/// What of a piece of memory lies between multiples of kLentMemoryAlignment.
std::span<std::byte> whole_pieces(std::span<std::byte> memory) {
  void* begin = memory.data();
  std::size_t bytes = memory.size();
  if (std::align(kLentMemoryAlignment, kLentMemoryAlignment, begin, bytes) == nullptr) return {};
  return {static_cast<std::byte*>(begin), bytes / kLentMemoryAlignment * kLentMemoryAlignment};
}

Status open_in(std::span<std::byte> memory, std::shared_ptr<void> owner, std::string_view uri,
               std::unique_ptr<Device>* device, std::string* reason) {
  DeviceUri parsed;
  const Status status = parse_device_uri(uri, &parsed, reason);
  if (status != Status::kOk) return status;
  if (parsed.scheme != "cpu") {
    *reason = std::string(uri) + ": only cpu: works in memory of the caller";
    return Status::kBadUri;
  }
  const std::span<std::byte> whole = whole_pieces(memory);
  if (whole.empty()) {
    *reason = "cpu: device: the memory has " + std::to_string(memory.size()) +
              " bytes, none in a " + "whole piece of " + std::to_string(kLentMemoryAlignment) +
              "; lend more";
    return Status::kBadArgument;
  }
  std::unique_ptr<Device> opened;
  const Status done =
      CpuDevice::open_in(std::move(parsed), whole, std::move(owner), &opened, reason);
  if (done == Status::kOk) *device = std::make_unique<ProcessBoundDevice>(std::move(opened));
  return done;
}

}  // namespace

Status open_device_in(std::span<std::byte> memory, std::shared_ptr<void> owner,
                      std::string_view uri, std::unique_ptr<Device>* device, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    return open_in(memory, std::move(owner), uri, device, reason != nullptr ? reason : &ignored);
  });
}

Status open_device(std::string_view uri, std::unique_ptr<Device>* device, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    return open_any(uri, device, reason != nullptr ? reason : &ignored);
  });
}

}  // namespace nearkv
