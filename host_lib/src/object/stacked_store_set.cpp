// What changes objects in a stack: no older copy may outlive a newer one, and only the last tier
// forgets.
#include <algorithm>
#include <thread>

#include "object/deadline.hpp"
#include "object/object_jobs.hpp"
#include "object/stacked_store.hpp"

namespace nearkv {
namespace {

// How often a set asks again whether there is room.
constexpr std::chrono::microseconds kPoll{200};

/// The first thing in a job's outcome that says that its tier was not reached.
std::optional<Status> first_away(Status status, const JobResult& result) {
  if (status != Status::kOk) return is_away(status) ? std::optional(status) : std::nullopt;
  const auto found = std::ranges::find_if(result.items, is_away);
  return found != result.items.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace

Status StackedStore::erase_in(std::size_t first, std::size_t end, const Job& job) {
  for (std::size_t tier = end; tier-- > first;) {
    Job erase;
    erase.kind = JobKind::kErase;
    erase.namespace_number = for_tier(job, tier).namespace_number;
    erase.items = job.items;
    JobResult result;
    const Status status = tiers_[tier]->run(erase, &result);
    if (const auto away = first_away(status, result)) return *away;
  }
  return Status::kOk;
}

bool StackedStore::may_evict(const Job& job, std::size_t tier) const {
  return job.evict && tier + 1 == tiers_.size();
}

void StackedStore::run_in(std::size_t tier, Job job, bool evict, std::span<Status> statuses) {
  job = for_tier(job, tier);
  job.evict = evict;
  JobResult result;
  const Status status = tiers_[tier]->run(job, &result);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    statuses[i] = status == Status::kOk ? result.items[i] : status;
  }
}

bool StackedStore::begin_overwrite(const Job& job, std::unique_lock<std::mutex>* order,
                                   std::span<Status> statuses) {
  if (!job.overwrite) return true;
  order->lock();
  // No older copy may be left below a newer one.
  const Status status = erase_in(1, tiers_.size(), job);
  if (status != Status::kOk) std::ranges::fill(statuses, status);
  return status == Status::kOk;
}

bool StackedStore::wait_for_room(Status status, Clock::time_point deadline) {
  if (status != Status::kPoolFull || mover_.is_cut_off() || Clock::now() >= deadline) return false;
  mover_.wake();
  std::this_thread::sleep_for(kPoll);
  return true;
}

void StackedStore::set(const Job& job, std::span<Status> statuses) {
  std::vector<Status> below(statuses.size(), Status::kPoolFull);
  std::unique_lock lock(order_, std::defer_lock);
  if (!begin_overwrite(job, &lock, statuses)) return;
  for (std::size_t tier = tiers_.size(); tier-- > 1 && options_.write_through;) {
    run_in(tier, job, may_evict(job, tier), below);
  }
  run_in(0, job, false, statuses);
  if (lock.owns_lock()) lock.unlock();
  const auto deadline = deadline_after(options_.patience);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    if (options_.write_through && statuses[i] == Status::kOk) statuses[i] = below[i];
    if (statuses[i] != Status::kPoolFull) continue;
    Job one = job;
    one.items = job.items.subspan(i, 1);
    if (job.chain && i != 0) one.parent = job.items[i - 1].key;
    // Written through, it is where it has to be.
    set_where_there_is_room(one, below[i] == Status::kOk ? Clock::now() : deadline, &statuses[i]);
  }
}

void StackedStore::set_where_there_is_room(const Job& job, Clock::time_point deadline,
                                           Status* status) {
  const auto set_in = [&](std::size_t tier, bool evict) {
    std::unique_lock lock(order_, std::defer_lock);
    // What the mover has in its hands nobody can evict.
    if (job.overwrite || evict) lock.lock();
    if (job.overwrite) {
      *status = erase_in(tier + 1, tiers_.size(), job);
      if (*status != Status::kOk) return;
    }
    run_in(tier, job, evict, std::span(status, 1));
    // An older copy above would be found first.
    if (job.overwrite && *status == Status::kOk) *status = erase_in(0, tier, job);
  };
  while (wait_for_room(*status, deadline)) set_in(0, false);
  for (std::size_t tier = 1; tier < tiers_.size() && *status == Status::kPoolFull; ++tier) {
    set_in(tier, may_evict(job, tier));
    if (is_away(*status)) *status = Status::kPoolFull;
  }
  // All below is leased or away: what is above cannot go down.
  if (*status == Status::kPoolFull && job.evict) set_in(0, true);
}

void StackedStore::set_parts(const Job& job, std::span<Status> statuses) {
  // All parts go to the first tier: in two of them an object would never be whole.
  std::unique_lock lock(order_, std::defer_lock);
  if (!begin_overwrite(job, &lock, statuses)) return;
  run_in(0, job, false, statuses);
  if (lock.owns_lock()) lock.unlock();
  const auto deadline = deadline_after(options_.patience);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    Job one = job;
    one.items = job.items.subspan(i, 1);
    while (wait_for_room(statuses[i], deadline)) run_in(0, one, false, statuses.subspan(i, 1));
    if (statuses[i] == Status::kPoolFull && job.evict) {
      const std::scoped_lock no_move(order_);
      run_in(0, one, true, statuses.subspan(i, 1));
    }
  }
}

void StackedStore::erase(const Job& job, std::span<Status> statuses) {
  std::ranges::fill(statuses, Status::kNotFound);
  const std::scoped_lock lock(order_);
  for (std::size_t tier = tiers_.size(); tier-- > 0;) {
    JobResult result;
    const Status status = tiers_[tier]->run(for_tier(job, tier), &result);
    if (const auto away = first_away(status, result)) {
      // Erased above, it would come back from below.
      std::ranges::fill(statuses, *away);
      return;
    }
    if (status != Status::kOk) continue;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if (result.items[i] == Status::kNotFound || statuses[i] == Status::kBusy) continue;
      statuses[i] = result.items[i];
    }
  }
}

}  // namespace nearkv
