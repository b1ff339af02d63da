// A card of XRT as a device that is loaded by URI: xrt:0?memory=64MiB&xclbin=PATH. Ordinary XRT
// code: on hardware emulation its environment (env.sh beside the xclbin) has to be set before.
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "support/device_plugin.hpp"
#include "xrt/device/xrt_card.hpp"

namespace {

using nearkv::xrt_device::XrtCard;

constexpr std::size_t kMostMemoryBytes = std::size_t{16} << 30;

struct Options {
  nearkv::xrt_device::CardOptions card;
  nearkv::emulator::MemoryOptions memory;
};

std::optional<Options> parse_arguments(std::string_view arguments) {
  Options options;
  const std::size_t question = arguments.find('?');
  const std::string_view index = arguments.substr(0, question);
  if (!index.empty()) {
    const auto [rest, error] =
        std::from_chars(index.data(), index.data() + index.size(), options.card.index);
    if (error != std::errc() || rest != index.data() + index.size()) return std::nullopt;
  }
  const auto take = [&options](std::string_view option) {
    constexpr std::string_view kXclbin = "xclbin=";
    if (option.starts_with("memory=")) return options.memory.take(option).value_or(false);
    if (!option.starts_with(kXclbin)) return false;
    options.card.xclbin = option.substr(kXclbin.size());
    return !options.card.xclbin.empty();
  };
  const std::string_view rest =
      question == std::string_view::npos ? std::string_view() : arguments.substr(question);
  if (!nearkv::emulator::take_options(rest, take)) return std::nullopt;
  options.card.memory_bytes = options.memory.bytes;
  if (options.card.memory_bytes > kMostMemoryBytes) return std::nullopt;
  return options;
}

void* open(const char* arguments, char* error, size_t error_bytes) {
  const auto options = parse_arguments(arguments);
  if (!options) {
    std::snprintf(
        error, error_bytes,
        "takes the number of a card, then ?memory=SIZE (multiple of 4KiB up to 16GiB) and "
        "xclbin=PATH, joined by &; not \"%s\"",
        arguments);
    return nullptr;
  }
  std::string reason;
  auto card = XrtCard::open(options->card, &reason);
  if (card == nullptr) std::snprintf(error, error_bytes, "%s", reason.c_str());
  return card.release();
}

constexpr nkv_device_plugin kPlugin = nearkv::emulator::plugin_of<XrtCard>(open);

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct nkv_device_plugin* nkv_plugin_entry(
    void) {
  return &kPlugin;
}
