#include "daemon/server/janitor.hpp"

namespace nearkv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLeasePeriod{1};
constexpr std::chrono::milliseconds kEventPeriod{10};
constexpr std::chrono::milliseconds kUnwatchedPeriod{100};
constexpr std::chrono::seconds kPauseBetweenRounds{1};
constexpr std::chrono::microseconds kLeastPause{200};  // Where there are few objects to read.
constexpr std::size_t kRecordsAtATime = 16;

}  // namespace

Janitor::Janitor(const SessionContext& context, std::uint64_t scrub_bytes_per_s, const Log* log)
    : context_(context), scrub_bytes_per_s_(scrub_bytes_per_s), log_(log) {
  thread_ = std::thread([this] { work(); });
}

Janitor::~Janitor() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Janitor::work() {
  Clock::time_point next_leases = Clock::now();
  Clock::time_point next_events = next_leases;
  Clock::time_point next_scrub = scrub_bytes_per_s_ == 0 ? Clock::time_point::max() : next_leases;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_until(lock, std::min({next_leases, next_events, next_scrub}),
                              [this] { return stop_; })) {
    lock.unlock();
    const Clock::time_point now = Clock::now();
    if (now >= next_leases) {
      // Nobody has lease 0: the store ends what has expired, and finds nothing more to end.
      (void)context_.store->unpin(0);
      next_leases = now + kLeasePeriod;
    }
    if (now >= next_events) {
      const bool watched = context_.events->is_watched();
      if (watched) context_.events->pump();
      next_events = now + (watched ? kEventPeriod : kUnwatchedPeriod);
    }
    if (now >= next_scrub) next_scrub = now + scrub();
    lock.lock();
  }
}

std::chrono::nanoseconds Janitor::scrub() {
  VerifyProgress progress;
  if (context_.store->verify(next_, kRecordsAtATime, &progress) != Status::kOk)
    return kPauseBetweenRounds;
  next_ = progress.next;
  context_.counters->scrubbed_bytes.fetch_add(progress.bytes);
  context_.counters->scrub_damaged.fetch_add(progress.damaged);
  if (progress.damaged != 0) {
    log_->error("scrub found damage", {{"objects", progress.damaged}});
  }
  const std::chrono::nanoseconds fair = std::max<std::chrono::nanoseconds>(
      kLeastPause,
      std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(progress.bytes) * 1e9 /
                                                         static_cast<double>(scrub_bytes_per_s_))));
  return next_ == 0 ? fair + kPauseBetweenRounds : fair;
}

}  // namespace nearkv
