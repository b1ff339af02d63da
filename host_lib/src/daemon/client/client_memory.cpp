#include "daemon/client/client_memory.hpp"

#include <fcntl.h>

#include <algorithm>

#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kLoanBytes = 4096;  // Loans are whole pages.

FileDescriptor duplicate(int fd) { return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

ClientMemory::ClientMemory(const Connection& first)
    : window_(first.memory()),
      carrier_(first.layout().data_bytes / 2 / kLoanBytes * kLoanBytes),
      lent_(first.layout().data_bytes - carrier_.bytes()) {
  Region data;
  data.memory = first.window().data;
  data.fd = duplicate(first.window_fd());
  data.offset = first.layout().data_at;
  regions_.push_back(std::move(data));
}

Status ClientMemory::attach(Connection* connection) {
  for (Region& region : regions_) {
    if (region.memory.empty()) continue;
    const Status status = connection->register_region(region.fd.get(), region.offset,
                                                      region.memory.size(), &region.number);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

Status ClientMemory::allocate(std::size_t bytes, std::span<std::byte>* memory) {
  if (bytes == 0) return Status::kBadArgument;
  const auto offset = lent_.take(round_up(bytes, kLoanBytes));
  if (!offset) return Status::kOutOfMemory;
  *memory = regions_.front().memory.subspan(carrier_.bytes() + *offset, bytes);
  loans_.emplace(memory->data(), bytes);
  return Status::kOk;
}

Status ClientMemory::release(std::span<std::byte> memory) {
  const auto loan = loans_.find(memory.data());
  if (loan == loans_.end() || loan->second != memory.size()) return Status::kBadArgument;
  loans_.erase(loan);
  const std::span<std::byte> lendable = regions_.front().memory.subspan(carrier_.bytes());
  lent_.give_back(static_cast<std::uint64_t>(memory.data() - lendable.data()),
                  round_up(memory.size(), kLoanBytes));
  return Status::kOk;
}

Status ClientMemory::add(Connection* connection, int memfd, std::uint64_t offset,
                         std::span<std::byte> mapping) {
  // All of them have to find room beside the data area of another daemon's window.
  if (regions_.size() + 1 >= NKV_DAEMON_MAX_REGIONS) return Status::kQueueFull;
  Region region;
  const Status status = connection->register_region(memfd, offset, mapping.size(), &region.number);
  if (status != Status::kOk) return status;
  region.memory = mapping;
  region.fd = duplicate(memfd);
  region.offset = offset;
  regions_.push_back(std::move(region));
  return Status::kOk;
}

Status ClientMemory::remove(Connection* connection, std::span<std::byte> mapping) {
  const auto region = std::ranges::find_if(regions_, [&](const Region& candidate) {
    return candidate.memory.data() == mapping.data() && candidate.memory.size() == mapping.size();
  });
  if (region == regions_.end() || region == regions_.begin()) return Status::kNotFound;
  const Status status = connection->unregister_region(region->number);
  // What may be forgotten at any time must not be named any more.
  if (status == Status::kOk || status == Status::kTimeout) regions_.erase(region);
  return status;
}

std::optional<ClientMemory::Place> ClientMemory::find(std::span<const std::byte> memory) const {
  for (const Region& region : regions_) {
    // Compared as numbers: the memory may be any.
    const auto begin = reinterpret_cast<std::uintptr_t>(region.memory.data());
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    if (at < begin || at - begin > region.memory.size() ||
        memory.size() > region.memory.size() - (at - begin)) {
      continue;
    }
    return Place{region.number, at - begin};
  }
  return std::nullopt;
}

}  // namespace nearkv
