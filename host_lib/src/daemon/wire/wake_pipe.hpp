// The pipe by which one side of a window wakes the other.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "file_descriptor.hpp"

namespace nearkv {

/// Both ends, not inherited and not blocking.
struct WakePipe {
  FileDescriptor read;
  FileDescriptor write;

  /// False: no descriptors are left.
  [[nodiscard]] static bool make(WakePipe* pipe) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    pipe->read = FileDescriptor(ends[0]);
    pipe->write = FileDescriptor(ends[1]);
    return true;
  }
};

/// Makes the other end readable. The caller sees to what comes of a pipe that nobody reads.
inline void wake_pipe(int fd) {
  // A full pipe is readable already.
  [[maybe_unused]] const auto written = ::write(fd, "", 1);
}

/// Takes all that is there.
inline void empty_pipe(int fd) {
  std::array<char, 512> bytes;
  while (::read(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
  }
}

}  // namespace nearkv
