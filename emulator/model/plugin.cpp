// The model as a device that is loaded by URI: model:?memory=64MiB, or model:?file=PATH.
#include <cstdio>
#include <memory>
#include <string_view>

#include "card.hpp"
#include "support/device_plugin.hpp"

namespace {

using nearkv::model::Card;

void* open(const char* arguments, char* error, size_t error_bytes) {
  nearkv::emulator::MemoryOptions options;
  const auto take = [&options](std::string_view option) {
    return options.take(option).value_or(false);
  };
  if (!nearkv::emulator::take_options(arguments, take)) {
    std::snprintf(error, error_bytes,
                  "model: takes ?memory=SIZE, a multiple of 4KiB such as 64MiB, or ?file=PATH; not "
                  "\"%s\"",
                  arguments);
    return nullptr;
  }
  auto memory = nearkv::emulator::make_memory("model", options, {error, error_bytes});
  return memory == nullptr ? nullptr : std::make_unique<Card>(std::move(memory)).release();
}

constexpr nkv_device_plugin kPlugin = nearkv::emulator::plugin_of<Card>(open);

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct nkv_device_plugin* nkv_plugin_entry(
    void) {
  return &kPlugin;
}
