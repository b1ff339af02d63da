#include "support/device_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace nearkv::emulator {
namespace {

constexpr size_t kGrainBytes = 4096;

}  // namespace

std::unique_ptr<DeviceMemory> DeviceMemory::allocate(size_t bytes) {
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  return std::unique_ptr<DeviceMemory>(
      new DeviceMemory(std::span(static_cast<std::byte*>(place), bytes)));
}

std::unique_ptr<DeviceMemory> DeviceMemory::map(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat what{};
  void* place = MAP_FAILED;
  const bool is_known = fstat(file, &what) == 0;
  const auto bytes = static_cast<size_t>(is_known ? what.st_size : 0);
  if (bytes != 0 && bytes % kGrainBytes == 0) {
    place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (place == MAP_FAILED) return nullptr;
  return std::unique_ptr<DeviceMemory>(
      new DeviceMemory(std::span(static_cast<std::byte*>(place), bytes)));
}

DeviceMemory::~DeviceMemory() { munmap(bytes_.data(), bytes_.size()); }

bool take_options(std::string_view arguments, const std::function<bool(std::string_view)>& take) {
  char before = '?';
  while (!arguments.empty()) {
    if (arguments.front() != before) return false;
    arguments.remove_prefix(1);
    const size_t end = std::min(arguments.find('&'), arguments.size());
    if (end == 0 || !take(arguments.substr(0, end))) return false;
    arguments.remove_prefix(end);
    before = '&';
  }
  return true;
}

std::optional<size_t> parse_memory_size(std::string_view text) {
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
