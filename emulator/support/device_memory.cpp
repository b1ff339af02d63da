#include "support/device_memory.hpp"

#include <sys/mman.h>

#include <charconv>

namespace nearkv::emulator {

std::unique_ptr<DeviceMemory> DeviceMemory::allocate(size_t bytes) {
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  return std::unique_ptr<DeviceMemory>(
      new DeviceMemory(std::span(static_cast<std::byte*>(place), bytes)));
}

DeviceMemory::~DeviceMemory() { munmap(bytes_.data(), bytes_.size()); }

std::optional<size_t> parse_memory_size(std::string_view text) {
  constexpr size_t kGrainBytes = 4096;
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  int shift = 0;
  if (unit == "KiB") {
    shift = 10;
  } else if (unit == "MiB") {
    shift = 20;
  } else if (unit == "GiB") {
    shift = 30;
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  const size_t bytes = number << shift;
  const bool overflows = bytes >> shift != number;
  if (overflows || bytes == 0 || bytes % kGrainBytes != 0) return std::nullopt;
  return bytes;
}

}  // namespace nearkv::emulator
