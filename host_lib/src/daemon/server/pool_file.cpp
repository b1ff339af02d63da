#include "daemon/server/pool_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "device/memory.hpp"
#include "file_descriptor.hpp"
#include "object/extent_list.hpp"
#include "object/stored_parts.hpp"

namespace nearkv {
namespace {

/// Unmaps a pool that was mapped here.
struct Mapping {
  explicit Mapping(std::span<std::byte> mapped) : bytes(mapped) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(bytes.data(), bytes.size()); }

  std::span<std::byte> bytes;
};

std::uint64_t size_of(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return 0;
  if (S_ISREG(info.st_mode)) return static_cast<std::uint64_t>(info.st_size);
  if (S_ISCHR(info.st_mode)) return dax_bytes(info);
  const off_t end = ::lseek(fd, 0, SEEK_END);
  return end > 0 ? static_cast<std::uint64_t>(end) : 0;
}

}  // namespace

Status PoolFile::open(const std::string& path, std::unique_ptr<PoolFile>* file,
                      std::string* reason) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::uint64_t bytes = fd ? size_of(fd.get()) : 0;
  if (!fd || bytes == 0) {
    *reason = path + ": " + (fd ? "is empty" : std::strerror(errno)) + "; name a pool's file";
    return Status::kIoError;
  }
  std::unique_ptr<PoolFile> made(new PoolFile);
  made->served_ = ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0;
  void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    *reason = path + ": " + std::strerror(errno);
    return Status::kIoError;
  }
  auto mapping = std::make_shared<Mapping>(std::span(static_cast<std::byte*>(address), bytes));
  PoolMemory::Source source;
  source.bytes = mapping->bytes;
  source.persistence = Persistence::make(Durability::kNone);
  source.owner = mapping;
  source.is_read_only = true;
  const Status status = PoolMemory::open(std::move(source), &made->pool_, reason);
  if (status != Status::kOk) {
    *reason = path + ": " + *reason;
    return status;
  }
  made->namespaces_ = std::make_unique<NamespaceTable>(made->pool_.get());
  made->payload_ =
      std::make_unique<MemoryPayload>(made->pool_->bytes(), &made->pool_->persistence());
  made->records_ = std::make_unique<RecordTable>(made->pool_.get());
  *file = std::move(made);
  return Status::kOk;
}

Status PoolFile::extents(const nkv_object_record& record, std::vector<Extent>* extents) const {
  return read_extents(pool_->header(), payload_.get(), record, extents);
}

Status PoolFile::verify(const nkv_object_record& record) const {
  std::vector<Extent> extents;
  Status status = read_extents(pool_->header(), payload_.get(), record, &extents);
  if (status != Status::kOk) return status;
  // What a forger may have written there must not name more than there is.
  if (record.parts > NKV_MAX_OBJECT_PARTS || record.bytes > NKV_MAX_OBJECT_BYTES ||
      record.bytes + trailer_bytes(record) >
          std::uint64_t{record.grains} * NKV_OBJECT_GRAIN_BYTES) {
    return Status::kCorrupt;
  }
  return StoredParts(payload_.get(), namespaces_.get(), nullptr).verify(extents, record);
}

}  // namespace nearkv
