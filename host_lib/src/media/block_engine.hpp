// How a block file's transfers reach the kernel: the seam between BlockFile and io_uring, threads,
// and the faults that tests put in between.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace nearkv {

enum class BlockOperation : std::uint8_t { kRead, kWrite, kSync };

/// One call to the kernel. kSync uses neither offset nor memory.
struct BlockTransfer {
  std::uint32_t id = 0;  ///< Returned with the result.
  BlockOperation operation = BlockOperation::kRead;
  std::uint64_t offset_bytes = 0;
  std::span<std::byte> memory;  ///< In use until the result has been reaped; writes only read it.
  int bounce = -1;              ///< Index of the bounce buffer that `memory` lies in, or -1.
};

struct BlockResult {
  std::uint32_t id = 0;
  std::int64_t bytes = 0;  ///< Transferred, perhaps fewer than asked for; -errno if it failed.
};

/// Transfers of one file. One caller at a time.
class BlockEngine {
 public:
  virtual ~BlockEngine() = default;

  [[nodiscard]] virtual const char* name() const = 0;

  /// Takes a transfer; never blocks. The caller has fewer than `depth` in flight.
  virtual void start(const BlockTransfer& transfer) = 0;

  /// Results in any order, as many as there are and fit: at once if there are any, else as soon as
  /// one comes, and none after `timeout`.
  virtual std::size_t reap(std::span<BlockResult> results, std::chrono::nanoseconds timeout) = 0;

  /// Asks that what is in flight end soon, with -ECANCELED or as it will. Every result still comes.
  virtual void cancel_all() = 0;
};

/// Over io_uring; nullptr, with the reason, where it is not to be had. `fd` and `bounce` (buffers
/// of equal size, one after another) outlive what is in flight.
std::unique_ptr<BlockEngine> make_uring_engine(int fd, unsigned depth, std::span<std::byte> bounce,
                                               std::size_t bounce_bytes, std::string* reason);

/// Threads that call pread and pwrite. Threads that hang in the kernel when the engine goes are
/// left behind: they own a duplicate of `fd`. Throws std::system_error if there are no threads.
std::unique_ptr<BlockEngine> make_thread_engine(int fd, unsigned depth);

}  // namespace nearkv
