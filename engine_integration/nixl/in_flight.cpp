#include "in_flight.hpp"

#include <algorithm>

#include "status.hpp"

namespace nearkv::nixl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{100};
constexpr int kSlices = 50;  // Then whoever releases a transfer has to come again.

// A transfer teaches its time if its end is known better than to this, or to a quarter of it: who
// asks late sees it late. The first one teaches in any case.
constexpr std::chrono::microseconds kKnownWell{250};
constexpr int kShare = 4;

}  // namespace

nixl_status_t InFlight::post(Request* request, const Job& job) {
  const std::scoped_lock lock(mutex_);
  JobId id = 0;
  const auto now = Request::Clock::now();
  Status status = store_->submit(job, &id);
  if (status == Status::kQueueFull) {
    take_in();
    status = store_->submit(job, &id);
  }
  if (status != Status::kOk) {
    NIXL_ERROR << "not posted: " << message(status);
    return request->status = to_nixl(status);
  }
  request->id = id;
  request->posted = now;
  request->status = NIXL_IN_PROG;
  requests_.emplace(id, request);
  return NIXL_IN_PROG;
}

nixl_status_t InFlight::check(Request* request) {
  if (request->status == NIXL_IN_PROG) {
    const std::scoped_lock lock(mutex_);
    take_in();
  }
  return request->status;
}

bool InFlight::stop(Request* request) {
  if (request->status != NIXL_IN_PROG) return true;
  (void)store_->cancel(request->id);  // Over already, maybe.
  JobResult result;
  for (int slice = 0; slice < kSlices; ++slice) {
    const Status status = store_->wait(request->id, kSlice, &result);
    const std::scoped_lock lock(mutex_);
    // Reported to somebody else, who has taken it in by now.
    if (request->status != NIXL_IN_PROG) return true;
    if (status == Status::kOk) {
      end(request, result, false);
      return true;
    }
  }
  return false;
}

void InFlight::take_in() {
  const std::vector<JobResult> results = store_->drain();
  for (const JobResult& result : results) {
    const auto found = requests_.find(result.id);
    if (found != requests_.end()) end(found->second, result, true);
  }
  looked_ = Request::Clock::now();
}

void InFlight::end(Request* request, const JobResult& result, bool learns) {
  requests_.erase(request->id);
  const nixl_status_t outcome = request->outcome(result);
  if (learns && outcome == NIXL_SUCCESS) learn(*request);
  request->status = outcome;
}

void InFlight::learn(const Request& request) {
  const auto now = Request::Clock::now();
  const auto taken = now - request.posted;
  const auto unknown = now - std::max(request.posted, looked_);
  const bool is_known_well =
      unknown <= std::max<Request::Clock::duration>(kKnownWell, taken / kShare);
  CostModel& costs = costs_[request.operation()];
  if (is_known_well || !costs.estimate(1, 1)) {
    costs.learn(request.object_count(), request.bytes(), taken);
  }
}

}  // namespace nearkv::nixl
