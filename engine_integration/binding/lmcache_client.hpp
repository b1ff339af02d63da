// What LMCache calls a native connector: batches of objects by LMCache's own strings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lent_memory.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv::python {

/// Batches over one store. A string MODEL@RANK@GROUP@HASH[@SALT], of which rank, group and hash are
/// hexadecimal, is the object HASH in a namespace of model, rank, group and salt: salts never see
/// each other's objects.
///
/// What fails is the item's result, never an exception. Thread safety: all calls, without the GIL.
class LMCacheClient {
 public:
  using BatchId = std::uint64_t;

  struct Completion {
    BatchId id = 0;
    bool ok = false;                 ///< kSet: all of it is stored. Else: the store could be asked.
    std::string error;               ///< What befell items that are neither there nor just absent.
    std::vector<bool> items;         ///< In the order of the strings; of a get: whole.
    std::vector<LentMemory> memory;  ///< Free from now on.
  };

  /// `common`: tenant, dtype, layout and salt of all its namespaces.
  LMCacheClient(std::unique_ptr<ObjectStore> store, Namespace common);
  LMCacheClient(const LMCacheClient&) = delete;
  LMCacheClient& operator=(const LMCacheClient&) = delete;
  /// Drops what has not begun and finishes copies.
  ~LMCacheClient();

  /// Readable while drain() has something to give, and now and then while jobs are on their way.
  [[nodiscard]] int event_fd() const { return events_; }

  /// Starts a batch of any size; its memory, one piece for each string of a get or set, is held
  /// until the batch is drained. kBadArgument, and which string is none in `reason`; `memory` is
  /// then left alone: releasing it needs the GIL.
  Status submit(JobKind kind, const std::vector<std::string>& strings,
                std::vector<LentMemory>* memory, BatchId* id, std::string* reason);

  /// Batches that are over, each once. What a daemon does not answer in 11 s is given up.
  std::vector<Completion> drain();

 private:
  struct Batch {
    JobKind kind = JobKind::kGet;
    std::size_t parts_left = 0;
    std::size_t failed = 0;
    std::string why;
    Completion completion;
  };

  /// What of a batch lies in one namespace, and so is a job.
  struct Part {
    BatchId batch = 0;
    std::uint32_t namespace_number = 0;
    std::vector<std::size_t> places;  ///< In the batch.
    std::vector<std::string> keys;
    std::chrono::steady_clock::time_point due;  ///< When it is cancelled.
  };

  // All with the mutex.
  [[nodiscard]] Status open(const Namespace& name, const std::string& known_as,
                            std::uint32_t* number);
  [[nodiscard]] bool send(Part* part);
  void send_waiting();
  void cancel_overdue();
  void tick(std::chrono::seconds every);
  void end_item(Batch* batch, std::size_t place, Status status, std::size_t object_bytes);
  void end_part(BatchId batch);

  std::unique_ptr<ObjectStore> store_;
  Namespace common_;
  int events_;  ///< An epoll: of the store's event fd, of `over_early_` and of `ticks_`.
  int over_early_;
  int ticks_;  ///< A timer that runs while there are jobs.
  std::mutex mutex_;
  BatchId next_ = 1;
  std::map<std::string, std::uint32_t, std::less<>> namespaces_;
  std::map<BatchId, Batch> batches_;
  std::map<JobId, Part> jobs_;
  std::deque<Part> waiting_;  ///< For room in the store's queue.
  std::vector<Completion> over_;
};

}  // namespace nearkv::python
