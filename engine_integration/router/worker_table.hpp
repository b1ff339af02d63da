// The workers that requests may go to, and what each of them has to do.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nearkv/status.hpp"
#include "residency.hpp"
#include "worker_set.hpp"

namespace nearkv::router {

/// What a worker is.
struct WorkerOptions {
  bool is_pool = false;             ///< It computes nothing: its blocks are for all workers.
  double prefill_tokens_per_s = 0;  ///< 0: the cost model's.
};

/// Requests that were started and have not ended.
struct Load {
  std::uint64_t requests = 0;
  std::uint64_t prefill_tokens = 0;  ///< To be computed before their first tokens.
  std::uint64_t blocks = 0;          ///< That they occupy while they decode.

  friend auto operator<=>(const Load&, const Load&) = default;
};

/// One request's part in a worker's load. Ends once, by WorkerTable::finish.
struct Ticket {
  WorkerId worker = 0;
  std::uint32_t incarnation = 0;  ///< Tells a worker from an earlier one of its number.
  std::uint64_t prefill_tokens = 0;
  std::uint64_t blocks = 0;
  bool is_open = false;
};

/// Thread safety: every call from any thread. Those that a request's way needs (is_active, load,
/// prefill_tokens_per_s, size, pools) take no lock.
class WorkerTable {
 public:
  WorkerTable() { free_.reserve(kMaxWorkers); }

  /// kExists: there is one of that name. kPoolFull: there are kMaxWorkers. kBadArgument: no name,
  /// or a rate that is negative or no number.
  Status add(std::string_view name, const WorkerOptions& options, WorkerId* id);

  /// No request goes there any more; its number stays taken until release(). kNotFound.
  Status retire(std::string_view name, WorkerId* id);
  void release(WorkerId id);

  /// kNotFound: no active worker or pool has that name.
  Status find(std::string_view name, WorkerId* id) const;
  [[nodiscard]] std::string name(WorkerId id) const;  ///< Empty if there is none.
  [[nodiscard]] std::vector<WorkerId> active() const;

  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_active(WorkerId id) const { return active_.has(id); }
  [[nodiscard]] const WorkerSet& pools() const { return pools_; }
  [[nodiscard]] double prefill_tokens_per_s(WorkerId id) const;
  [[nodiscard]] Load load(WorkerId id) const;

  /// Adds a request to a worker's load. kNotFound: the worker is gone.
  Status start(WorkerId id, std::uint64_t prefill_tokens, std::uint64_t blocks, Ticket* ticket);
  /// Its prompt is computed.
  void first_token(Ticket* ticket);
  /// It has ended, in whatever way. Nothing happens the second time, or if the worker is gone.
  void finish(Ticket* ticket);

 private:
  struct Worker {
    std::atomic<double> prefill_tokens_per_s = 0;
    std::atomic<std::uint64_t> requests = 0;
    std::atomic<std::uint64_t> prefill_tokens = 0;
    std::atomic<std::uint64_t> blocks = 0;
    std::uint32_t incarnation = 0;
    std::string name;
  };

  [[nodiscard]] Worker* counted_by(const Ticket& ticket);

  mutable std::mutex mutex_;  ///< Over all that is not atomic, and over changes of load.
  std::unordered_map<std::string, WorkerId> numbers_;
  std::vector<WorkerId> free_;
  std::unique_ptr<std::array<Worker, kMaxWorkers>> workers_ =
      std::make_unique<std::array<Worker, kMaxWorkers>>();
  std::atomic<std::size_t> size_ = 0;  ///< Above all numbers that were given.
  WorkerSet active_;
  WorkerSet pools_;
};

}  // namespace nearkv::router
