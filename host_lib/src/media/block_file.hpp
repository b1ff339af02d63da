// A file of blocks on NVMe: batches of reads and writes by io_uring, past the page cache.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "media/block_engine.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Offsets and lengths are multiples of this.
inline constexpr std::size_t kBlockBytes = 4096;

constexpr bool is_aligned(std::uint64_t value, std::size_t grain) { return value % grain == 0; }

/// What a system call's errno means for a tier; kOk for 0.
Status block_status(int system_error);

/// An extent of the file and the memory that it comes from or goes to, of any alignment.
struct BlockRequest {
  BlockOperation operation = BlockOperation::kRead;  ///< kRead or kWrite.
  std::uint64_t offset_bytes = 0;
  std::span<std::byte> memory;  ///< Writes only read it.
  Status status = Status::kOk;  ///< How it ended.
  int system_error = 0;         ///< The errno behind `status`, 0 if there is none.
};

/// Which calls move the bytes.
enum class BlockEngineKind : std::uint8_t { kAny, kUring, kThreads };

struct BlockFileOptions {
  std::string path;
  std::uint64_t bytes = 0;  ///< At least this large, a multiple of kBlockBytes; 0: as it is.
  bool create = true;       ///< Whether the file may be made.
  unsigned depth = 32;      ///< Transfers in flight, 1 to 1024.
  std::chrono::milliseconds timeout{10'000};  ///< Of a batch, and of a sync.
  BlockEngineKind engine = BlockEngineKind::kAny;
  /// Put around the engine: where tests inject faults. Empty: nothing.
  std::function<std::unique_ptr<BlockEngine>(std::unique_ptr<BlockEngine>)> wrap{};
};

/// One open file. All of its bytes are reserved when it is opened, so that writes within it do not
/// run out of space. One caller at a time; several objects may have the same file open.
class BlockFile {
 public:
  /// kPoolFull if the space cannot be reserved, kIoError or kBadArgument, with `reason`, if the
  /// file cannot be opened.
  static Status open(const BlockFileOptions& options, std::unique_ptr<BlockFile>* file,
                     std::string* reason);

  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;
  /// Closes it.
  ~BlockFile() { (void)close(); }

  /// Runs all requests, in any order, and sets each one's status: kPoolFull if the medium ran out
  /// of space, kIoError, or kTimeout if it did not end in time. Returns the first that is not kOk,
  /// and names it in last_error(). kBadArgument, and nothing is done, if an extent is misaligned or
  /// beyond the file.
  ///
  /// Returns within the timeout and a tenth of it. Memory of requests that ended in kTimeout, and
  /// extents that they write, stay in use until in_flight() is 0, or close() says so.
  Status run(std::span<BlockRequest> requests);

  /// All writes that run() has acknowledged outlive a loss of power (fdatasync).
  Status sync();

  /// Transfers that outlasted their batch, after a look whether they have ended.
  std::size_t in_flight();

  /// Cancels what is in flight and waits for it, for at most a second; nothing is to be run
  /// afterwards. False: some of it has not ended, and its memory stays in use for good.
  [[nodiscard]] bool close();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Whether transfers bypass the page cache.
  [[nodiscard]] bool direct() const { return direct_; }
  /// "io_uring" or "threads".
  [[nodiscard]] const char* engine() const { return engine_->name(); }
  /// Why it is not io_uring past the page cache, for a person; empty if it is.
  [[nodiscard]] const std::string& fallback_reason() const { return fallback_reason_; }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kBounceBytes = std::size_t{128} << 10;  ///< One for each slot.
  static constexpr std::size_t kNoRequest = ~std::size_t{0};

  /// One transfer in flight, or free.
  struct Slot {
    bool busy = false;
    std::size_t request = kNoRequest;  ///< kNoRequest: its batch has been left.
    BlockOperation operation = BlockOperation::kRead;
    std::uint64_t offset_bytes = 0;
    std::span<std::byte> memory;  ///< The caller's.
    std::size_t done_bytes = 0;
    unsigned stalls = 0;  ///< Results in a row that brought no whole block.
    bool bounced = false;
  };
  /// What of a batch has not been done.
  struct Batch {
    std::span<BlockRequest> requests;
    std::size_t next = 0;        ///< Requests before this have been started,
    std::size_t next_bytes = 0;  ///< and so has this much of it.
    std::size_t running = 0;     ///< Slots that work for it.
    bool stopping = false;       ///< Nothing more is started.
    [[nodiscard]] bool done() const { return next == requests.size() && running == 0; }
  };

  BlockFile() = default;
  Status open_descriptor(const BlockFileOptions& options, std::string* reason);
  Status reserve(const BlockFileOptions& options, std::string* reason);
  Status make_engine(const BlockFileOptions& options, std::string* reason);
  Status check(std::span<const BlockRequest> requests);
  Status run_checked(std::span<BlockRequest> requests);
  void pump(Batch* batch, Clock::time_point deadline);
  void start_pieces(Batch* batch);
  void start(std::size_t slot);
  void finish(const BlockResult& result, Batch* batch);
  bool advance(Slot* slot, std::size_t index, std::int64_t bytes, BlockRequest* request);
  void stop(Batch* batch);
  void leave(Batch* batch);
  [[nodiscard]] std::size_t busy_slots() const;
  [[nodiscard]] std::string describe(const BlockRequest& request) const;
  [[nodiscard]] std::span<std::byte> bounce_of(std::size_t slot) const;

  std::string path_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  bool direct_ = false;
  std::size_t memory_alignment_ = 1;
  std::chrono::nanoseconds timeout_{};
  std::span<std::byte> bounce_;
  std::vector<Slot> slots_;
  std::unique_ptr<BlockEngine> engine_;
  std::string fallback_reason_;
  std::string last_error_;
};

}  // namespace nearkv
