#include "object/job_queue.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "deadline.hpp"
#include "edge.hpp"
#include "media/segments.hpp"
#include "object/owned_job.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kMostJobs = 4096;  // Then submitters have to drain.

// A chunk is one worker's at a time: large enough to share fences, small enough to share a job.
constexpr std::size_t kChunkItems = 16;

// What takes several times as long to copy as it takes to wake a worker for the next chunk.
constexpr std::size_t kSharedBytes = 1 << 20;

std::size_t bytes_of(std::span<const ObjectItem> items) {
  std::size_t bytes = 0;
  for (const ObjectItem& item : items) {
    bytes += SourceCursor(item.source).remaining_bytes();
    bytes += TargetCursor(item.target).remaining_bytes();
  }
  return bytes;
}

}  // namespace

/// A job with its own copies of keys and lists of segments, and what has come of it.
struct JobQueue::Pending {
  explicit Pending(const Job& submitted) : owned(submitted) {
    result.items.resize(job().items.size(), Status::kOk);
    result.object_bytes.resize(job().items.size(), 0);
  }
  [[nodiscard]] const Job& job() const { return owned.job(); }

  OwnedJob owned;
  JobResult result;
  std::atomic<std::size_t> next{0};  ///< Items before it have been taken.
  std::size_t over = 0;              ///< Items that are, under the queue's mutex.
  std::atomic<bool> taken{false};    ///< Of a chain: a worker has it.
};

JobQueue::JobQueue(Runner run, unsigned workers)
    : run_(std::move(run)), event_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  try {
    for (unsigned i = 0; i < std::max(workers, 1U); ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    end();
    throw;
  }
}

JobQueue::~JobQueue() { end(); }

void JobQueue::end() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  ::close(event_fd_);
}

Status JobQueue::submit(const Job& job, JobId* id) {
  auto pending = std::make_shared<Pending>(job);
  {
    const std::scoped_lock lock(mutex_);
    if (pending_.size() >= kMostJobs) return Status::kQueueFull;
    *id = pending->result.id = next_++;
    pending_.emplace(*id, pending);
    if (!pending->job().items.empty()) queue_.push_back(pending);
  }
  work_.notify_one();
  if (pending->job().items.empty()) finish_items(pending.get(), 0);
  return Status::kOk;
}

void JobQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const std::shared_ptr<Pending> pending = queue_.front();
    lock.unlock();
    const bool more = pending->job().chain ? run_chain(pending.get()) : run_chunk(pending.get());
    lock.lock();
    if (!more && !queue_.empty() && queue_.front() == pending) queue_.pop_front();
  }
}

bool JobQueue::run_chain(Pending* pending) {
  // One worker stores it in its order: where room is short, a block is only worth having if those
  // before it are there.
  if (!pending->taken.exchange(true)) {
    while (run_chunk(pending)) {
    }
  }
  return false;
}

bool JobQueue::run_chunk(Pending* pending) {
  const std::size_t items = pending->job().items.size();
  const std::size_t first = pending->next.fetch_add(kChunkItems);
  if (first >= items) return false;
  const std::size_t count = std::min(kChunkItems, items - first);
  if (!pending->job().chain && first + count < items &&
      bytes_of(pending->job().items.subspan(first, count)) >= kSharedBytes) {
    work_.notify_one();
  }
  const Status status = at_edge([&] {
    run_(pending->job(), first, count, &pending->result);
    return Status::kOk;
  });
  if (status != Status::kOk) {
    std::ranges::fill(std::span(pending->result.items).subspan(first, count), status);
  }
  finish_items(pending, count);
  return true;
}

void JobQueue::finish_items(Pending* pending, std::size_t count) {
  {
    const std::scoped_lock lock(mutex_);
    pending->over += count;
    if (pending->over != pending->job().items.size()) return;
    done_.push_back(pending->result.id);
  }
  const std::uint64_t one = 1;
  // It can only fail by being readable already, more often than anybody counts.
  [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof(one));
  finished_.notify_all();
}

std::vector<JobResult> JobQueue::drain() {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(event_fd_, &count, sizeof(count));
  std::vector<JobResult> results;
  for (const JobId id : done_) {
    const auto found = pending_.find(id);
    results.push_back(std::move(found->second->result));
    pending_.erase(found);
  }
  done_.clear();
  return results;
}

Status JobQueue::wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) {
  const auto deadline = deadline_after(timeout);
  std::unique_lock lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return Status::kNotFound;
  const std::shared_ptr<Pending> pending = found->second;
  lock.unlock();
  const bool may_help = !pending->job().chain;
  while (may_help && std::chrono::steady_clock::now() < deadline && run_chunk(pending.get())) {
  }
  lock.lock();
  const auto is_over = [&] { return std::ranges::find(done_, id) != done_.end(); };
  const auto is_reported = [&] { return !pending_.contains(id); };
  if (!finished_.wait_until(lock, deadline, [&] { return is_over() || is_reported(); })) {
    return Status::kTimeout;
  }
  if (is_reported()) return Status::kNotFound;
  *result = std::move(pending->result);
  std::erase(done_, id);
  pending_.erase(id);
  return Status::kOk;
}

Status JobQueue::cancel(JobId id) {
  std::shared_ptr<Pending> pending;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = pending_.find(id);
    if (found == pending_.end() || found->second->over == found->second->job().items.size()) {
      return Status::kNotFound;
    }
    pending = found->second;
  }
  const std::size_t items = pending->job().items.size();
  const std::size_t first = pending->next.exchange(items);
  // Where nothing is left to take, the job may be over by now and its result somebody else's.
  if (first >= items) return Status::kOk;
  std::ranges::fill(std::span(pending->result.items).subspan(first), Status::kCancelled);
  finish_items(pending.get(), items - first);
  return Status::kOk;
}

}  // namespace nearkv
