#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "edge.hpp"
#include "media/block_file.hpp"

namespace nearkv {
namespace {

constexpr unsigned kMostDepth = 1024;

/// What the file asks of the memory of transfers that bypass the cache; 0: it refuses them.
std::size_t direct_memory_alignment([[maybe_unused]] int fd) {
#ifdef STATX_DIOALIGN
  struct statx info{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    const bool usable =
        info.stx_dio_offset_align != 0 && is_aligned(kBlockBytes, info.stx_dio_offset_align);
    return usable ? info.stx_dio_mem_align : 0;
  }
#endif
  return kBlockBytes;  // nobody asks for more
}

}  // namespace

Status block_status(int system_error) {
  switch (system_error) {
    case 0:
      return Status::kOk;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Status::kPoolFull;
    case ECANCELED:
    case ETIMEDOUT:
      return Status::kTimeout;
    default:
      return Status::kIoError;
  }
}

Status BlockFile::open(const BlockFileOptions& options, std::unique_ptr<BlockFile>* file,
                       std::string* reason) {
  return at_edge([&] {
    if (options.depth == 0 || options.depth > kMostDepth || options.timeout.count() <= 0 ||
        !is_aligned(options.bytes, kBlockBytes)) {
      *reason = options.path + ": depth, timeout or size out of range";
      return Status::kBadArgument;
    }
    std::unique_ptr<BlockFile> opened(new BlockFile);
    opened->path_ = options.path;
    opened->timeout_ = options.timeout;
    Status status = opened->open_descriptor(options, reason);
    if (status == Status::kOk) status = opened->reserve(options, reason);
    if (status == Status::kOk) status = opened->make_engine(options, reason);
    if (status == Status::kOk) *file = std::move(opened);
    return status;
  });
}

Status BlockFile::open_descriptor(const BlockFileOptions& options, std::string* reason) {
  const int flags = O_RDWR | O_CLOEXEC | (options.create ? O_CREAT : 0);
  fd_ = ::open(path_.c_str(), flags | O_DIRECT, 0600);
  const int direct_error = errno;
  if (fd_ >= 0) {
    memory_alignment_ = direct_memory_alignment(fd_);
    direct_ = memory_alignment_ != 0;
  }
  if (!direct_) {
    fallback_reason_ = path_ + ": O_DIRECT refused";
    if (fd_ < 0) fallback_reason_ += std::string(" (") + std::strerror(direct_error) + ")";
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(path_.c_str(), flags, 0600);
    memory_alignment_ = 1;
  }
  if (fd_ >= 0) return Status::kOk;
  *reason = path_ + ": " + std::strerror(errno);
  return Status::kIoError;
}

Status BlockFile::reserve(const BlockFileOptions& options, std::string* reason) {
  struct stat info{};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    *reason = path_ + ": not a regular file";
    return Status::kBadArgument;
  }
  bytes_ = static_cast<std::uint64_t>(info.st_size) / kBlockBytes * kBlockBytes;
  bytes_ = std::max(bytes_, options.bytes);
  if (bytes_ == 0) {
    *reason = path_ + ": empty; give a size";
    return Status::kBadArgument;
  }
  // Holes too, should somebody have made the file without us.
  const int error = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes_));
  if (error == 0) return Status::kOk;
  // Some file systems keep what they found before they ran out.
  const bool given_back = ::ftruncate(fd_, info.st_size) == 0;
  *reason = path_ + ": cannot reserve " + std::to_string(bytes_) +
            " bytes: " + std::strerror(error) + (given_back ? "" : "; the file has grown");
  return block_status(error);
}

Status BlockFile::make_engine(const BlockFileOptions& options, std::string* reason) {
  const std::size_t bounce_bytes = options.depth * kBounceBytes;
  void* const bounce =
      ::mmap(nullptr, bounce_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bounce == MAP_FAILED) {
    *reason = path_ + ": no memory for its buffers";
    return Status::kOutOfMemory;
  }
  bounce_ = {static_cast<std::byte*>(bounce), bounce_bytes};
  slots_.resize(options.depth);
  if (options.engine != BlockEngineKind::kThreads) {
    std::string why;
    engine_ = make_uring_engine(fd_, options.depth, bounce_, kBounceBytes, &why);
    if (engine_ == nullptr && options.engine == BlockEngineKind::kUring) {
      *reason = path_ + ": " + why;
      return Status::kUnsupported;
    }
    if (engine_ == nullptr) {
      fallback_reason_ += (fallback_reason_.empty() ? path_ + ": " : "; ") + why;
    }
  }
  if (engine_ == nullptr) engine_ = make_thread_engine(fd_, options.depth);
  if (options.wrap) engine_ = options.wrap(std::move(engine_));
  return Status::kOk;
}

bool BlockFile::close() {
  bool settled = true;
  if (engine_ != nullptr && in_flight() != 0) {
    engine_->cancel_all();
    pump(nullptr, Clock::now() + std::chrono::seconds(1));
    settled = in_flight() == 0;
  }
  engine_.reset();
  // What the kernel may still write into is nobody else's, ever.
  if (!bounce_.empty() && settled) ::munmap(bounce_.data(), bounce_.size());
  bounce_ = {};
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  return settled;
}

}  // namespace nearkv
