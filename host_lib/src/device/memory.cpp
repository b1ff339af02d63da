#include "device/memory.hpp"

#include <fcntl.h>
#include <numa.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "page_bytes.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

std::string system_error(const std::string& what) { return what + ": " + std::strerror(errno); }

/// Waits a moment for a process that is ending, and for one that looks whether the file is in use.
/// File systems without locks are let pass.
bool is_locked_by_others(int fd) {
  constexpr int kTries = 20;
  for (int tries = 0; tries < kTries; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// A file that was made for a mapping goes again, unless that came about.
class MadeFile {
 public:
  MadeFile() = default;
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;
  ~MadeFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  void forget_unless_kept(const std::string& path) { path_ = path; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

/// Opens the file, or makes it, for one owner, which has it as long as the lock.
Status own(const std::string& path, FileDescriptor* file, LockDescriptor* lock, MadeFile* made,
           std::string* reason) {
  FileDescriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const bool is_new = !opened && errno == ENOENT;
  if (is_new) opened = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  // Opened once more: a mapping of what is locked would keep the lock in each child that has it.
  const std::string again = "/proc/self/fd/" + std::to_string(opened.get());
  FileDescriptor locked(opened ? ::open(again.c_str(), O_RDWR | O_CLOEXEC) : -1);
  if (!locked) {
    *reason = system_error(path);
    return Status::kIoError;
  }
  if (is_locked_by_others(locked.get())) {
    *reason = path +
              ": another store or device has this pool open; end that, name another file, or share "
              "the pool by a daemon (nearkv serve)";
    return Status::kBusy;
  }
  if (is_new) made->forget_unless_kept(path);
  *file = std::move(opened);
  *lock = LockDescriptor(std::move(locked));
  return Status::kOk;
}

/// Finds how many bytes to map of an open file, growing a regular file if asked to.
Status size_of(int fd, const Memory::Options& options, std::uint64_t* bytes, std::string* reason) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    *reason = system_error(options.path);
    return Status::kIoError;
  }
  std::uint64_t present = 0;
  if (S_ISCHR(info.st_mode)) {
    present = dax_bytes(info);
    if (present == 0 || options.bytes > present) {
      *reason = options.path +
                (present == 0 ? ": not a DAX device" : ": the DAX device is smaller than memory=");
      return Status::kBadUri;
    }
  } else {
    present = static_cast<std::uint64_t>(info.st_size);
    const std::uint64_t wanted = round_up(options.bytes, kHugePageBytes);
    if (present < wanted) {
      if (::posix_fallocate(fd, 0, static_cast<off_t>(wanted)) != 0) {
        *reason = options.path + ": cannot reserve " + std::to_string(wanted) + " bytes on disk";
        return Status::kIoError;
      }
      present = wanted;
    }
  }
  *bytes = options.bytes != 0 ? round_up(options.bytes, kHugePageBytes)
                              : present / kHugePageBytes * kHugePageBytes;
  if (*bytes == 0) {
    *reason = options.path + (present == 0 ? ": empty; give memory=SIZE"
                                           : ": too small for a pool; name another file");
    return Status::kBadUri;
  }
  return Status::kOk;
}

}  // namespace

std::uint64_t dax_bytes(const struct stat& info) {
  const std::string number =
      std::to_string(major(info.st_rdev)) + ":" + std::to_string(minor(info.st_rdev));
  std::ifstream size("/sys/dev/char/" + number + "/size");
  std::uint64_t bytes = 0;
  return size >> bytes ? bytes : 0;
}

Memory::Memory(Memory&& other) noexcept
    : lock_(std::move(other.lock_)),
      bytes_(std::exchange(other.bytes_, {})),
      durability_(other.durability_) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(lock_, other.lock_);
  std::swap(bytes_, other.bytes_);
  std::swap(durability_, other.durability_);
  return *this;
}

Memory::~Memory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Status Memory::map(const Options& options, Memory* memory, std::string* reason) {
  std::uint64_t bytes = round_up(options.bytes, kHugePageBytes);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  FileDescriptor file;
  LockDescriptor lock;
  MadeFile made;
  if (!options.path.empty()) {
    Status status = own(options.path, &file, &lock, &made, reason);
    if (status == Status::kOk) status = size_of(file.get(), options, &bytes, reason);
    if (status != Status::kOk) return status;
    flags = MAP_SHARED;
  }
  // Only DAX takes MAP_SYNC: its mapping is the memory itself, with no page cache in between.
  void* address = MAP_FAILED;
  Durability durability = Durability::kNone;
  if (!options.path.empty()) {
    address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC,
                     file.get(), 0);
    durability = address != MAP_FAILED ? Durability::kPower : Durability::kProcess;
  }
  if (address == MAP_FAILED) {
    address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file.get(), 0);
  }
  if (address == MAP_FAILED) {
    *reason = system_error("mapping " + std::to_string(bytes) + " bytes of device memory");
    return Status::kOutOfMemory;
  }
  if (options.huge) ::madvise(address, bytes, MADV_HUGEPAGE);
  if (options.node >= 0 && numa_available() >= 0) {
    numa_tonode_memory(address, bytes, options.node);
  }
  made.keep();
  Memory mapped;
  mapped.lock_ = std::move(lock);
  mapped.bytes_ = {static_cast<std::byte*>(address), bytes};
  mapped.durability_ = durability;
  *memory = std::move(mapped);
  return Status::kOk;
}

}  // namespace nearkv
