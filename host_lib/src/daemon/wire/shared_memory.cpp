#include "daemon/wire/shared_memory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "page_bytes.hpp"

namespace nearkv {

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Status SharedMemory::create(std::uint64_t bytes, FileDescriptor* fd, SharedMemory* memory) {
  FileDescriptor made(::memfd_create("nearkv", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made || ::ftruncate(made.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Status::kOutOfMemory;
  }
  const Status status = map(made.get(), 0, bytes, memory);
  if (status == Status::kOk) *fd = std::move(made);
  return status;
}

Status SharedMemory::map(int fd, std::uint64_t offset, std::uint64_t bytes, SharedMemory* memory) {
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return Status::kOutOfMemory;
  ::madvise(address, bytes, MADV_HUGEPAGE);  // A wish; small pages do as well.
  SharedMemory mapped;
  mapped.bytes_ = {static_cast<std::byte*>(address), bytes};
  *memory = std::move(mapped);
  return Status::kOk;
}

Status SharedMemory::map_foreign(int fd, std::uint64_t offset, std::uint64_t bytes,
                                 SharedMemory* memory) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat info{};
  struct statfs system{};
  // Huge pages may run out when they are touched, and then the fault is the daemon's.
  const bool sound = seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(fd, &info) == 0 &&
                     ::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (!sound || bytes == 0 || offset % page_bytes() != 0 || offset > size ||
      bytes > size - offset) {
    return Status::kBadArgument;
  }
  return map(fd, offset, bytes, memory);
}

}  // namespace nearkv
