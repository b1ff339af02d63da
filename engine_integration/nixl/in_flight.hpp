// Transfers on their way.
#pragma once

#include <array>
#include <mutex>
#include <unordered_map>

#include "cost_model.hpp"
#include "nearkv/object_store.hpp"
#include "request.hpp"

namespace nearkv::nixl {

/// Jobs of a store and the requests that they are. No thread of its own: whoever asks about one
/// transfer takes in all that have ended. Thread safety: all calls; one at a time of each request.
class InFlight {
 public:
  explicit InFlight(ObjectStore* store) : store_(store) {}

  /// Hands the request's job to the store: NIXL_IN_PROG, or why it could not.
  [[nodiscard]] nixl_status_t post(Request* request, const Job& job);

  /// What has become of it. Does not wait.
  [[nodiscard]] nixl_status_t check(Request* request);

  /// Cancels what has not begun and waits for what has, since memory must not be touched later.
  /// False if that did not end in time: it is on its way still.
  [[nodiscard]] bool stop(Request* request);

  [[nodiscard]] const CostModel& costs(nixl_xfer_op_t operation) const { return costs_[operation]; }

 private:
  void take_in();
  void end(Request* request, const JobResult& result, bool learns);
  void learn(const Request& request);

  ObjectStore* store_;
  std::mutex mutex_;
  std::unordered_map<JobId, Request*> requests_;
  Request::Clock::time_point looked_{};  ///< When all requests_ were last on their way.
  std::array<CostModel, 2> costs_;       ///< By operation.
};

}  // namespace nearkv::nixl
