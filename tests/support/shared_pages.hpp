// Memory of a test that a daemon can be told of.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>

#include "file_descriptor.hpp"

namespace nearkv::test {

/// A memfd and its mapping.
struct SharedPages {
  explicit SharedPages(std::size_t bytes, int seals)
      : fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(address, MAP_FAILED);
    memory = {static_cast<std::byte*>(address), bytes};
  }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages() { ::munmap(memory.data(), memory.size()); }

  FileDescriptor fd;
  std::span<std::byte> memory;
};

}  // namespace nearkv::test
