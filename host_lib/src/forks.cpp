#include "forks.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

namespace nearkv {
namespace {

std::atomic<std::uint64_t> forks{0};
/// Numbers of descriptors plus one; 0 where there is none.
std::array<std::atomic<int>, LockDescriptor::kMost> locks{};

/// In the child, where only calls that signal handlers may make are safe.
void begin_child() {
  forks.fetch_add(1, std::memory_order_relaxed);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (std::atomic<int>& lock : locks) {
    const int number = lock.exchange(0, std::memory_order_relaxed) - 1;
    if (number >= 0) ::dup3(nothing, number, O_CLOEXEC);
  }
  ::close(nothing);
}

void watch_forks() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, begin_child);
  (void)watched;
}

}  // namespace

std::uint64_t fork_count() noexcept {
  watch_forks();
  return forks.load(std::memory_order_relaxed);
}

LockDescriptor::LockDescriptor(FileDescriptor file) : file_(std::move(file)) {
  watch_forks();
  for (std::atomic<int>& lock : locks) {
    int none = 0;
    if (lock.compare_exchange_strong(none, file_.get() + 1)) return;
  }
}

LockDescriptor& LockDescriptor::operator=(LockDescriptor&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

LockDescriptor::~LockDescriptor() {
  if (!file_) return;
  for (std::atomic<int>& lock : locks) {
    int mine = file_.get() + 1;
    if (lock.compare_exchange_strong(mine, 0)) return;
  }
}

}  // namespace nearkv
