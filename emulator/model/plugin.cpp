// The model as a device that is loaded by URI: model:?memory=64MiB.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "card.hpp"
#include "nearkv/device_plugin.h"

namespace {

using nearkv::model::Card;
using nearkv::model::DeviceMemory;

std::optional<size_t> parse_arguments(std::string_view arguments) {
  constexpr std::string_view kMemory = "?memory=";
  if (arguments.empty()) return nearkv::emulator::kDefaultMemoryBytes;
  if (!arguments.starts_with(kMemory)) return std::nullopt;
  return nearkv::emulator::parse_memory_size(arguments.substr(kMemory.size()));
}

Card* card_of(void* device) { return static_cast<Card*>(device); }

void* open(const char* arguments, char* error, size_t error_bytes) {
  const auto bytes = parse_arguments(arguments);
  if (!bytes) {
    std::snprintf(error, error_bytes,
                  "model: takes ?memory=SIZE, a multiple of 4KiB such as 64MiB; not \"%s\"",
                  arguments);
    return nullptr;
  }
  auto memory = DeviceMemory::allocate(*bytes);
  if (memory == nullptr) {
    std::snprintf(error, error_bytes, "model: cannot allocate %zu bytes of device memory", *bytes);
    return nullptr;
  }
  return std::make_unique<Card>(std::move(memory)).release();
}

void close(void* device) { const std::unique_ptr<Card> closed(card_of(device)); }

uint64_t read_csr(void* device, uint32_t offset) { return card_of(device)->read_csr(offset); }

void write_csr(void* device, uint32_t offset, uint64_t value) {
  card_of(device)->write_csr(offset, value);
}

void* memory(void* device, size_t* bytes) {
  const auto place = card_of(device)->memory();
  *bytes = place.size();
  return place.data();
}

int wait(void* device, int64_t timeout_ns) {
  const std::chrono::nanoseconds timeout(std::max<int64_t>(timeout_ns, 0));
  return card_of(device)->wait(timeout) ? 0 : -ETIMEDOUT;
}

constexpr nkv_device_plugin kPlugin{.version = NKV_DEVICE_PLUGIN_VERSION,
                                    .open = open,
                                    .close = close,
                                    .read_csr = read_csr,
                                    .write_csr = write_csr,
                                    .memory = memory,
                                    .wait = wait};

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct nkv_device_plugin* nkv_plugin_entry(
    void) {
  return &kPlugin;
}
