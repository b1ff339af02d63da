// An OpenCL device that is loaded by URI: ocl:, ocl:?device=1&memory=64MiB.
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "card.hpp"
#include "opencl/commands.hpp"
#include "opencl/runtime.hpp"
#include "support/device_plugin.hpp"

namespace {

using nearkv::model::Card;
using nearkv::opencl::Runtime;

/// Takes "device=NUMBER"; nothing if it is another option, false if it is wrong.
std::optional<bool> take_device(std::string_view option, unsigned* number) {
  constexpr std::string_view kName = "device=";
  if (!option.starts_with(kName)) return std::nullopt;
  const std::string_view text = option.substr(kName.size());
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *number);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
}

void* open(const char* arguments, char* error, size_t error_bytes) {
  nearkv::emulator::MemoryOptions options;
  unsigned number = 0;
  const auto take = [&](std::string_view option) {
    if (const auto taken = take_device(option, &number)) return *taken;
    return options.take(option).value_or(false);
  };
  if (!nearkv::emulator::take_options(arguments, take)) {
    std::snprintf(error, error_bytes,
                  "ocl: takes ?device=NUMBER, ?memory=SIZE, a multiple of 4KiB such as 64MiB, or "
                  "?file=PATH; not \"%s\"",
                  arguments);
    return nullptr;
  }
  std::string reason;
  // The card's executor is copied with it, and keeps the runtime.
  const std::shared_ptr<Runtime> runtime = Runtime::open(number, &reason);
  if (runtime == nullptr) {
    std::snprintf(error, error_bytes, "%s", reason.c_str());
    return nullptr;
  }
  auto memory = nearkv::emulator::make_memory("ocl", options, {error, error_bytes});
  if (memory == nullptr) return nullptr;
  const auto executor = [runtime](const nearkv::model::Domain& domain,
                                  const nearkv::model::Command& command) {
    return nearkv::opencl::execute(*runtime, domain, command);
  };
  return std::make_unique<Card>(std::move(memory), executor, nearkv::opencl::kFeatures).release();
}

constexpr nkv_device_plugin kPlugin = nearkv::emulator::plugin_of<Card>(open);

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct nkv_device_plugin* nkv_plugin_entry(
    void) {
  return &kPlugin;
}
