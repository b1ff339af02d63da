#include "share/region.hpp"

#include <algorithm>
#include <bit>

#include "share/record.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kLineCopies = 2;

/// A log never fills with entries that are needed: every object and every change of owner takes an
/// extent at least, all of them may come to one host, and cleaning wants as much room again.
std::uint32_t log_entries_of(const RegionShape& shape) { return 4 * shape.extents + 16; }

std::uint64_t bursts_per_host(std::uint64_t hosts, std::uint64_t log_entries, std::uint64_t leases,
                              std::uint64_t messages) {
  return kLogAreas * (kLineCopies + log_entries) + hosts + leases + hosts * messages;
}

bool is_sane(const RegionShape& shape) {
  return shape.hosts > 0 && shape.extents > 0 && shape.extents < (1U << 28) &&
         std::has_single_bit(shape.extent_bytes) && shape.extent_bytes >= NKV_BURST_BYTES &&
         shape.leases > 0 && shape.messages > 0;
}

std::uint64_t extents_at(const RegionShape& shape) {
  const std::uint64_t bursts = 1 + shape.hosts * bursts_per_host(shape.hosts, log_entries_of(shape),
                                                                 shape.leases, shape.messages);
  const std::uint64_t grain = std::max<std::uint64_t>(shape.extent_bytes, NKV_BURST_BYTES);
  return (bursts * NKV_BURST_BYTES + grain - 1) / grain * grain;
}

}  // namespace

std::uint64_t Region::bytes_of(const RegionShape& shape) {
  return extents_at(shape) + std::uint64_t{shape.extents} * shape.extent_bytes;
}

Status Region::create(SharedMemory& memory, const RegionShape& shape, Region* region) {
  if (!is_sane(shape) || bytes_of(shape) > memory.size_bytes()) return Status::kBadArgument;
  nkv_share_header header{};
  header.magic = NKV_SHARE_MAGIC;
  header.version = NKV_SHARE_VERSION;
  header.total_bytes = bytes_of(shape);
  header.extents_at = extents_at(shape);
  header.extents = shape.extents;
  header.extent_bytes = shape.extent_bytes;
  header.log_entries = log_entries_of(shape);
  header.hosts = shape.hosts;
  header.leases = shape.leases;
  header.messages = shape.messages;
  write_record(memory, 0, header);
  memory.fence();
  region->header_ = header;
  return Status::kOk;
}

Status Region::open(SharedMemory& memory, Region* region) {
  nkv_share_header header{};
  if (memory.size_bytes() < sizeof(header) || !read_record(memory, 0, &header) ||
      header.magic != NKV_SHARE_MAGIC || header.version != NKV_SHARE_VERSION ||
      header.total_bytes > memory.size_bytes()) {
    return Status::kBadPool;
  }
  region->header_ = header;
  return Status::kOk;
}

std::uint32_t Region::extents_for(std::uint32_t bytes) const {
  const std::uint64_t whole = std::uint64_t{bytes} + header_.extent_bytes - 1;
  return std::max(1U, static_cast<std::uint32_t>(whole / header_.extent_bytes));
}

std::uint16_t Region::first_owner(std::uint32_t extent) const {
  return static_cast<std::uint16_t>(std::uint64_t{extent} * header_.hosts / header_.extents);
}

std::uint64_t Region::host_bursts() const {
  return bursts_per_host(header_.hosts, header_.log_entries, header_.leases, header_.messages);
}

std::uint64_t Region::burst_of(std::uint16_t host, std::uint64_t burst) const {
  return (1 + host * host_bursts() + burst) * NKV_BURST_BYTES;
}

std::uint64_t Region::line_at(std::uint16_t host, std::uint8_t area,
                              std::uint64_t heartbeat) const {
  return burst_of(host, area * kLineCopies + heartbeat % kLineCopies);
}

std::uint64_t Region::entry_at(std::uint16_t host, std::uint8_t area, std::uint64_t number) const {
  return burst_of(host, kLogAreas * kLineCopies + std::uint64_t{area} * header_.log_entries +
                            number % header_.log_entries);
}

std::uint64_t Region::ack_at(std::uint16_t reader, std::uint16_t owner) const {
  return burst_of(reader, kLogAreas * (kLineCopies + header_.log_entries) + owner);
}

std::uint64_t Region::lease_at(std::uint16_t host, std::uint16_t index) const {
  return burst_of(host, kLogAreas * (kLineCopies + header_.log_entries) + header_.hosts + index);
}

std::uint64_t Region::message_at(std::uint16_t from, std::uint16_t to, std::uint64_t number) const {
  return burst_of(from, kLogAreas * (kLineCopies + header_.log_entries) + header_.hosts +
                            header_.leases + std::uint64_t{to} * header_.messages +
                            number % header_.messages);
}

std::uint64_t Region::extent_at(std::uint32_t extent) const {
  return header_.extents_at + std::uint64_t{extent} * header_.extent_bytes;
}

}  // namespace nearkv
