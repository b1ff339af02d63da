// Jobs: batches that workers run while their submitter does something else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "nearkv/object_store.hpp"

namespace nearkv {

/// Jobs in the order of their submission, each cut into chunks that workers, and whoever waits for
/// the job, take one after the other; all those of a chain one worker. Thread safety: all calls.
class JobQueue {
 public:
  /// Does items [first, first + count) of a job, on the calling thread.
  using Runner =
      std::function<void(const Job& job, std::size_t first, std::size_t count, JobResult* result)>;

  /// Throws std::system_error if the machine gives no thread for a worker, or no eventfd.
  JobQueue(Runner run, unsigned workers);
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  /// Finishes the chunks that are being run, and drops the rest.
  ~JobQueue();

  // As ObjectStore's; jobs have been checked as a whole.
  Status submit(const Job& job, JobId* id);
  [[nodiscard]] int event_fd() const { return event_fd_; }
  std::vector<JobResult> drain();
  Status wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result);
  Status cancel(JobId id);

 private:
  struct Pending;

  void work();
  void end();
  /// Whether there may be more of it to do.
  [[nodiscard]] bool run_chunk(Pending* pending);
  [[nodiscard]] bool run_chain(Pending* pending);
  void finish_items(Pending* pending, std::size_t count);

  Runner run_;
  int event_fd_;
  std::mutex mutex_;
  std::condition_variable work_;      ///< Jobs have come, or it is over.
  std::condition_variable finished_;  ///< A job is over.
  std::deque<std::shared_ptr<Pending>> queue_;
  std::map<JobId, std::shared_ptr<Pending>> pending_;  ///< Until reported.
  std::deque<JobId> done_;
  JobId next_ = 1;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace nearkv
