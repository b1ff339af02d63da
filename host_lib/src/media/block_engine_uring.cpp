#include <liburing.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "media/block_engine.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kCancelTag = std::numeric_limits<std::uint64_t>::max();

class UringEngine final : public BlockEngine {
 public:
  UringEngine(const io_uring& ring, int fd, bool bounce_registered)
      : ring_(ring), fd_(fd), bounce_registered_(bounce_registered) {}
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;
  ~UringEngine() override { ::io_uring_queue_exit(&ring_); }

  [[nodiscard]] const char* name() const override { return "io_uring"; }

  void start(const BlockTransfer& transfer) override {
    io_uring_sqe* const entry = next_entry();
    const auto bytes = static_cast<unsigned>(transfer.memory.size());
    void* const data = transfer.memory.data();
    const bool fixed = bounce_registered_ && transfer.bounce >= 0;
    switch (transfer.operation) {
      case BlockOperation::kRead:
        if (fixed) {
          ::io_uring_prep_read_fixed(entry, fd_, data, bytes, transfer.offset_bytes,
                                     transfer.bounce);
        } else {
          ::io_uring_prep_read(entry, fd_, data, bytes, transfer.offset_bytes);
        }
        break;
      case BlockOperation::kWrite:
        if (fixed) {
          ::io_uring_prep_write_fixed(entry, fd_, data, bytes, transfer.offset_bytes,
                                      transfer.bounce);
        } else {
          ::io_uring_prep_write(entry, fd_, data, bytes, transfer.offset_bytes);
        }
        break;
      case BlockOperation::kSync:
        ::io_uring_prep_fsync(entry, fd_, IORING_FSYNC_DATASYNC);
        break;
    }
    ::io_uring_sqe_set_data64(entry, transfer.id);
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::nanoseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (true) {
      ::io_uring_submit(&ring_);
      if (const std::size_t count = take(results); count != 0) return count;
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds::zero()) return 0;
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
      __kernel_timespec wait{};
      wait.tv_sec = seconds.count();
      wait.tv_nsec = (left - seconds).count();
      io_uring_cqe* completion = nullptr;
      // Its errors are those of waiting (EINTR, ETIME); the loop looks again and minds the time.
      ::io_uring_wait_cqe_timeout(&ring_, &completion, &wait);
    }
  }

  void cancel_all() override {
    io_uring_sqe* const entry = next_entry();
    // Kernels before 5.19 refuse this; there a transfer ends when it ends.
    ::io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
    ::io_uring_sqe_set_data64(entry, kCancelTag);
  }

 private:
  /// The ring has an entry to spare for each transfer in flight; only cancellations can fill it.
  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    while (entry == nullptr) {
      ::io_uring_submit(&ring_);
      entry = ::io_uring_get_sqe(&ring_);
    }
    return entry;
  }

  std::size_t take(std::span<BlockResult> results) {
    std::size_t count = 0;
    io_uring_cqe* completion = nullptr;
    while (count < results.size() && ::io_uring_peek_cqe(&ring_, &completion) == 0) {
      const std::uint64_t id = ::io_uring_cqe_get_data64(completion);
      if (id != kCancelTag) results[count++] = {static_cast<std::uint32_t>(id), completion->res};
      ::io_uring_cqe_seen(&ring_, completion);
    }
    return count;
  }

  io_uring ring_;
  int fd_;
  bool bounce_registered_;
};

}  // namespace

std::unique_ptr<BlockEngine> make_uring_engine(int fd, unsigned depth, std::span<std::byte> bounce,
                                               std::size_t bounce_bytes, std::string* reason) {
  io_uring ring{};
  if (const int error = ::io_uring_queue_init(depth + 1, &ring, 0); error != 0) {
    *reason = std::string("io_uring: ") + std::strerror(-error);
    return nullptr;
  }
  std::vector<iovec> buffers;
  for (std::size_t at = 0; at < bounce.size(); at += bounce_bytes) {
    buffers.push_back({bounce.data() + at, bounce_bytes});
  }
  // Refused where too little memory may be locked: then they are buffers like any other.
  const bool registered = ::io_uring_register_buffers(&ring, buffers.data(),
                                                      static_cast<unsigned>(buffers.size())) == 0;
  return std::make_unique<UringEngine>(ring, fd, registered);
}

}  // namespace nearkv
