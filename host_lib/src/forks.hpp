// What is of one process, and of none that it makes by fork().
#pragma once

#include <cstddef>
#include <cstdint>

#include "file_descriptor.hpp"

namespace nearkv {

/// How many times fork() has led to this process since the library was first asked. What was opened
/// at another count belongs to a parent: its threads are not here, and its rings and locks are the
/// parent's. Thread safe.
[[nodiscard]] std::uint64_t fork_count() noexcept;

/// A descriptor whose lock ends with this process: in a child its number stands for /dev/null. Of
/// more than kMost at a time, those beyond are kept by children as others are.
class LockDescriptor {
 public:
  static constexpr std::size_t kMost = 256;

  LockDescriptor() = default;
  explicit LockDescriptor(FileDescriptor file);
  LockDescriptor(LockDescriptor&&) noexcept = default;
  LockDescriptor& operator=(LockDescriptor&& other) noexcept;
  ~LockDescriptor();

 private:
  FileDescriptor file_;
};

}  // namespace nearkv
