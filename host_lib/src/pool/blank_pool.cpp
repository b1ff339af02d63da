#include "pool/blank_pool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "file_descriptor.hpp"
#include "nkv_abi.h"
#include "page_bytes.hpp"

namespace nearkv {

namespace {

// Both copies of a header, and more: a file of somebody else's may begin with a few zeros.
constexpr std::size_t kLookBytes = 64 << 10;
static_assert(kLookBytes >= NKV_POOL_HEADER_COPY_AT + sizeof(nkv_pool_header));

}  // namespace

bool is_blank_pool(std::span<const std::byte> memory) {
  const auto head = memory.first(std::min(kLookBytes, memory.size()));
  return std::ranges::all_of(head, [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_blank_pool(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno == ENOENT;
  std::vector<std::byte> head(kLookBytes);
  const ssize_t bytes = ::pread(fd.get(), head.data(), head.size(), 0);
  if (bytes < 0) {
    // A device-dax cannot be read, only mapped, in huge pages.
    void* const mapped = ::mmap(nullptr, kHugePageBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) return false;
    std::memcpy(head.data(), mapped, head.size());
    ::munmap(mapped, kHugePageBytes);
  }
  return is_blank_pool(head);
}

}  // namespace nearkv
