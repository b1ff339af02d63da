// A store that Python has opened, and the memory that its jobs hold.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "nearkv/object_store.hpp"
#include "transfer.hpp"

namespace nearkv::python {

/// Runs `call` without the GIL.
template <typename Call>
auto freely(Call&& call) {
  const nanobind::gil_scoped_release release;
  return call();
}

/// Jobs of one store, whose memory stays until somebody has been told that they are over, or until
/// the store is gone. Statuses that are not kOk are raised as Error.
///
/// Thread safety: all calls, with the GIL, which is released during work. It may be destroyed with
/// or without.
class OpenStore {
 public:
  explicit OpenStore(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;
  ~OpenStore();

  [[nodiscard]] ObjectStore& operator*() const { return *store_; }

  [[nodiscard]] bool has_jobs();
  [[nodiscard]] bool has_job(JobId id);

  /// The store, which this has no longer: nobody else may hold this, and it may have no jobs.
  [[nodiscard]] std::unique_ptr<ObjectStore> give_up() { return std::move(store_); }

  /// (statuses, object_bytes, fresh memory).
  [[nodiscard]] nanobind::tuple run(const Transfer& transfer);

  /// (id, fresh memory).
  [[nodiscard]] nanobind::tuple submit(Transfer transfer);

  /// (statuses, object_bytes); nothing if it takes longer, no timeout: as long as it takes. Ctrl-C
  /// ends it.
  [[nodiscard]] std::optional<nanobind::tuple> wait(
      JobId id, std::optional<std::chrono::nanoseconds> timeout);

  /// The id and the outcome of each job that is over.
  [[nodiscard]] std::vector<std::tuple<JobId, nanobind::tuple>> drain();

  /// Forgets an outcome, which wait() and drain() give until then: Ctrl-C may come between them and
  /// whoever asked.
  void acknowledge(JobId id) { told_.erase(id); }

 private:
  struct Told {
    nanobind::tuple outcome;
    bool is_drained;
  };

  [[nodiscard]] nanobind::tuple end(const JobResult& result, bool is_drained);

  std::unique_ptr<ObjectStore> store_;
  std::mutex mutex_;  ///< Taken without the GIL, which is never asked for under it.
  std::map<JobId, Transfer> in_flight_;
  std::map<JobId, Told> told_;  ///< With the GIL.
};

}  // namespace nearkv::python
