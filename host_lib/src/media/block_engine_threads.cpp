#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "media/block_engine.hpp"

namespace nearkv {
namespace {

constexpr unsigned kMostThreads = 16;

/// What the engine and its threads share; the last one out destroys it.
struct Shared {
  explicit Shared(int duplicate) : fd(duplicate) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::close(fd); }

  const int fd;
  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable news;  ///< A result, or a thread that ended.
  std::deque<BlockTransfer> waiting;
  std::deque<BlockResult> finished;
  bool stop = false;
  unsigned running = 0;
};

std::int64_t perform(int fd, const BlockTransfer& transfer) {
  const auto offset = static_cast<off_t>(transfer.offset_bytes);
  ::ssize_t bytes = 0;
  switch (transfer.operation) {
    case BlockOperation::kRead:
      bytes = ::pread(fd, transfer.memory.data(), transfer.memory.size(), offset);
      break;
    case BlockOperation::kWrite:
      bytes = ::pwrite(fd, transfer.memory.data(), transfer.memory.size(), offset);
      break;
    case BlockOperation::kSync:
      bytes = ::fdatasync(fd);
      break;
  }
  return bytes < 0 ? -errno : bytes;
}

void serve(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->work.wait(lock, [&] { return shared->stop || !shared->waiting.empty(); });
    if (shared->stop) break;
    const BlockTransfer transfer = shared->waiting.front();
    shared->waiting.pop_front();
    lock.unlock();
    const std::int64_t bytes = perform(shared->fd, transfer);
    lock.lock();
    shared->finished.push_back({transfer.id, bytes});
    shared->news.notify_all();
  }
  --shared->running;
  shared->news.notify_all();
}

class ThreadEngine final : public BlockEngine {
 public:
  ThreadEngine(int duplicate, unsigned threads) : shared_(std::make_shared<Shared>(duplicate)) {
    threads_.reserve(threads);
    for (unsigned thread = 0; thread < threads; ++thread) {
      try {
        threads_.emplace_back(serve, shared_);
      } catch (const std::system_error&) {
        if (thread == 0) throw;
        break;  // fewer will do
      }
      const std::lock_guard lock(shared_->mutex);
      ++shared_->running;
    }
  }
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;
  ~ThreadEngine() override {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->work.notify_all();
    const bool ended = shared_->news.wait_for(lock, std::chrono::seconds(1),
                                              [&] { return shared_->running == 0; });
    lock.unlock();
    for (std::thread& thread : threads_) {
      if (ended) {
        thread.join();
      } else {
        thread.detach();
      }
    }
  }

  [[nodiscard]] const char* name() const override { return "threads"; }

  void start(const BlockTransfer& transfer) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.push_back(transfer);
    shared_->work.notify_one();
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(shared_->mutex);
    shared_->news.wait_for(lock, timeout, [&] { return !shared_->finished.empty(); });
    const std::size_t count = std::min(results.size(), shared_->finished.size());
    for (std::size_t i = 0; i < count; ++i) {
      results[i] = shared_->finished.front();
      shared_->finished.pop_front();
    }
    return count;
  }

  void cancel_all() override {
    const std::lock_guard lock(shared_->mutex);
    for (const BlockTransfer& transfer : shared_->waiting) {
      shared_->finished.push_back({transfer.id, -ECANCELED});
    }
    shared_->waiting.clear();
    shared_->news.notify_all();
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BlockEngine> make_thread_engine(int fd, unsigned depth) {
  const int duplicate = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) throw std::system_error(errno, std::generic_category(), "dup");
  return std::make_unique<ThreadEngine>(duplicate, std::min(depth, kMostThreads));
}

}  // namespace nearkv
