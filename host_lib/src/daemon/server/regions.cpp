#include "daemon/server/regions.hpp"

#include <algorithm>

namespace nearkv {

Regions::Regions(std::span<std::byte> window_data, std::uint64_t most_bytes)
    : free_bytes_(most_bytes) {
  regions_[0] = window_data;
}

Status Regions::add(int fd, std::uint64_t offset, std::uint64_t bytes, std::uint32_t* region) {
  if (bytes > free_bytes_) return Status::kQuota;
  for (std::uint32_t number = 1; number < regions_.size(); ++number) {
    if (!regions_[number].empty()) continue;
    const Status status = SharedMemory::map_foreign(fd, offset, bytes, &memory_[number]);
    if (status != Status::kOk) return status;
    regions_[number] = memory_[number].bytes();
    free_bytes_ -= bytes;
    *region = number;
    return Status::kOk;
  }
  return Status::kQueueFull;
}

Status Regions::remove(std::uint32_t region) {
  if (region == 0 || region >= regions_.size() || regions_[region].empty()) {
    return Status::kNotFound;
  }
  free_bytes_ += regions_[region].size();
  regions_[region] = {};
  memory_[region] = SharedMemory();
  return Status::kOk;
}

std::optional<std::span<std::byte>> Regions::find(const nkv_daemon_segment& segment) const {
  if (segment.region >= regions_.size()) return std::nullopt;
  const std::span<std::byte> region = regions_[segment.region];
  if (segment.offset > region.size() || segment.bytes > region.size() - segment.offset) {
    return std::nullopt;
  }
  return region.subspan(segment.offset, segment.bytes);
}

std::uint32_t Regions::size() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(regions_, [](const auto& region) { return !region.empty(); }));
}

}  // namespace nearkv
