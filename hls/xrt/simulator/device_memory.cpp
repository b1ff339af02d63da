#include "xrt/simulator/device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace nearkv::hw_emu {

namespace {

std::byte* reserve(std::size_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return place == MAP_FAILED ? nullptr : static_cast<std::byte*>(place);
}

}  // namespace

DeviceMemory::DeviceMemory(std::span<const Bank> banks, HostMemory* host) : host_(host) {
  for (const Bank& bank : banks) {
    std::byte* const data = bank.is_host() ? nullptr : reserve(bank.bytes);
    if (data == nullptr && !bank.is_host()) {
      throw std::runtime_error("no address space for " + std::to_string(bank.bytes >> 20) +
                               " MiB of bank " + bank.tag);
    }
    places_.push_back({bank, data});
  }
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, shared] : shared_) ::close(shared.file);
  for (const Place& place : places_) {
    if (place.data != nullptr) ::munmap(place.data, place.bank.bytes);
  }
}

const DeviceMemory::Place* DeviceMemory::place_of(std::uint64_t address, std::size_t bytes) const {
  for (const Place& place : places_) {
    const std::uint64_t offset = address - place.bank.base;
    if (offset < place.bank.bytes && bytes <= place.bank.bytes - offset) return &place;
  }
  return nullptr;
}

bool DeviceMemory::read(std::uint64_t address, std::span<std::byte> data) const {
  const Place* const place = place_of(address, data.size());
  if (place == nullptr) return false;
  if (place->data == nullptr) return host_ != nullptr && host_->read(address, data);
  std::memcpy(data.data(), place->data + (address - place->bank.base), data.size());
  return true;
}

bool DeviceMemory::write(std::uint64_t address, std::span<const std::byte> data) {
  const Place* const place = place_of(address, data.size());
  if (place == nullptr) return false;
  if (place->data == nullptr) return host_ != nullptr && host_->write(address, data);
  std::memcpy(place->data + (address - place->bank.base), data.data(), data.size());
  return true;
}

bool DeviceMemory::write(std::uint64_t address, std::span<const std::byte> data,
                         std::span<const std::uint8_t> strobes) {
  const auto is_written = [strobes](std::size_t i) { return (strobes[i / 8] >> i % 8 & 1) != 0; };
  if (place_of(address, data.size()) == nullptr) return false;
  for (std::size_t i = 0; i < data.size();) {
    std::size_t end = i;
    while (end < data.size() && is_written(end)) ++end;
    if (end > i && !write(address + i, data.subspan(i, end - i))) return false;
    i = end + 1;
  }
  return true;
}

std::string DeviceMemory::share(std::uint64_t address, std::size_t bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t rounded = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  const Place* const place = place_of(address, rounded);
  if (place == nullptr || place->data == nullptr) return {};
  const std::uint64_t offset = address - place->bank.base;
  if (offset % page_bytes != 0) return {};
  unshare(address);
  const int file = ::memfd_create("nearkv-xrt-buffer", MFD_CLOEXEC);
  if (file < 0) return {};
  if (::ftruncate(file, static_cast<off_t>(rounded)) != 0 ||
      ::mmap(place->data + offset, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             0) == MAP_FAILED) {
    ::close(file);
    return {};
  }
  shared_[address] = {file, rounded};
  // The host opens it through this process: nothing lies in a folder that a crash could leave
  // there.
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
}

void DeviceMemory::unshare(std::uint64_t address) {
  const auto found = shared_.find(address);
  if (found == shared_.end()) return;
  const Place* const place = place_of(address, found->second.bytes);
  void* const mapped = ::mmap(place->data + (address - place->bank.base), found->second.bytes,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) return;  // The bank goes on with the file's pages.
  ::close(found->second.file);
  shared_.erase(found);
}

}  // namespace nearkv::hw_emu
