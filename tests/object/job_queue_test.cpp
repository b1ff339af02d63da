// Jobs of the object tier: who runs their chunks.
#include "object/job_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

namespace nearkv::test {
namespace {

using std::chrono::seconds;

constexpr std::size_t kManyItems = 256;
constexpr std::size_t kItemBytes = 64 << 10;  // Worth another worker's waking.

/// Runs chunks, each of which stays until as many threads as wanted have one, or a second is over.
class Meeting {
 public:
  explicit Meeting(std::size_t wanted) : wanted_(wanted) {}

  void run() {
    std::unique_lock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    arrived_.notify_all();
    arrived_.wait_for(lock, seconds(1), [this] { return threads_.size() >= wanted_; });
  }

  [[nodiscard]] std::set<std::thread::id> threads() {
    const std::scoped_lock lock(mutex_);
    return threads_;
  }

 private:
  const std::size_t wanted_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::set<std::thread::id> threads_;
};

struct Submitted {
  explicit Submitted(std::size_t workers, std::size_t wanted)
      : meeting(wanted),
        queue([this](const Job&, std::size_t, std::size_t, JobResult*) { meeting.run(); },
              static_cast<unsigned>(workers)) {
    // All workers sleep by then, or come to the job by themselves.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (ObjectItem& item : items) item.source = source;
    job.items = items;
    EXPECT_EQ(queue.submit(job, &id), Status::kOk);
  }

  std::vector<std::byte> memory{kItemBytes};
  std::vector<std::span<const std::byte>> source{memory};
  std::vector<ObjectItem> items{kManyItems};
  Job job;
  JobId id = 0;
  Meeting meeting;
  JobQueue queue;
};

TEST(JobQueueTest, IdleWorkersShareOneJob) {
  Submitted submitted(3, 3);
  std::vector<JobResult> results;
  while (results.empty()) {
    results = submitted.queue.drain();
    std::this_thread::yield();
  }
  EXPECT_EQ(submitted.meeting.threads().size(), 3U);
}

TEST(JobQueueTest, WhoeverWaitsSharesItToo) {
  Submitted submitted(2, 3);
  JobResult result;
  EXPECT_EQ(submitted.queue.wait(submitted.id, seconds(60), &result), Status::kOk);
  EXPECT_EQ(submitted.meeting.threads().size(), 3U);
  EXPECT_TRUE(submitted.meeting.threads().contains(std::this_thread::get_id()));
}

TEST(JobQueueTest, WhoCancelsTooLateLeavesTheResultToWhoDrainsIt) {
  constexpr int kJobs = 20'000;
  JobQueue queue([](const Job&, std::size_t, std::size_t, JobResult*) {}, 2);
  std::atomic<JobId> current{0};
  std::atomic<bool> stop{false};
  std::thread canceller([&] {
    while (!stop) (void)queue.cancel(current);
  });
  const std::vector<ObjectItem> items(64);
  Job job;
  job.items = items;
  int complete = 0;
  for (int i = 0; i < kJobs; ++i) {
    JobId id = 0;
    EXPECT_EQ(queue.submit(job, &id), Status::kOk);
    current = id;
    std::vector<JobResult> results;
    while (results.empty()) results = queue.drain();
    complete += results.front().items.size() == items.size() ? 1 : 0;
  }
  stop = true;
  canceller.join();
  EXPECT_EQ(complete, kJobs);
}

}  // namespace
}  // namespace nearkv::test
