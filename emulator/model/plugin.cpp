// The model as a device that is loaded by URI: model:?memory=64MiB.
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "card.hpp"
#include "support/device_plugin.hpp"

namespace {

using nearkv::model::Card;

std::optional<size_t> parse_arguments(std::string_view arguments) {
  constexpr std::string_view kMemory = "?memory=";
  if (arguments.empty()) return nearkv::emulator::kDefaultMemoryBytes;
  if (!arguments.starts_with(kMemory)) return std::nullopt;
  return nearkv::emulator::parse_memory_size(arguments.substr(kMemory.size()));
}

void* open(const char* arguments, char* error, size_t error_bytes) {
  const auto bytes = parse_arguments(arguments);
  if (!bytes) {
    std::snprintf(error, error_bytes,
                  "model: takes ?memory=SIZE, a multiple of 4KiB such as 64MiB; not \"%s\"",
                  arguments);
    return nullptr;
  }
  auto memory = nearkv::emulator::allocate_memory("model", *bytes, {error, error_bytes});
  return memory == nullptr ? nullptr : std::make_unique<Card>(std::move(memory)).release();
}

constexpr nkv_device_plugin kPlugin = nearkv::emulator::plugin_of<Card>(open);

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct nkv_device_plugin* nkv_plugin_entry(
    void) {
  return &kPlugin;
}
