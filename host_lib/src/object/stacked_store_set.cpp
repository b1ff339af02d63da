// What changes objects in a stack: no older copy may outlive a newer one, and only the last tier
// forgets.
#include <algorithm>
#include <thread>

#include "deadline.hpp"
#include "object/object_jobs.hpp"
#include "object/stacked_store.hpp"

namespace nearkv {
namespace {

// How often a set asks again whether there is room.
constexpr std::chrono::microseconds kPoll{200};

/// Whether nothing speaks yet against going on with an item.
bool is_open(Status status) { return status == Status::kOk || status == Status::kNotFound; }

/// Runs `run(first, count)` for each stretch of items that are open.
template <typename Run>
void for_each_open(std::span<const Status> statuses, Run run) {
  for (std::size_t first = 0; first < statuses.size();) {
    const auto rest = statuses.subspan(first);
    const auto count =
        static_cast<std::size_t>(std::ranges::find_if_not(rest, is_open) - rest.begin());
    if (count != 0) run(first, count);
    first += count + 1;
  }
}

}  // namespace

Job StackedStore::slice(const Job& job, std::size_t first, std::size_t count) {
  Job part = job;
  part.items = job.items.subspan(first, count);
  if (job.chain && first != 0) part.parent = job.items[first - 1].key;
  return part;
}

void StackedStore::find_leased(const Job& job, std::span<Status> statuses) {
  std::vector<Key> keys;
  keys.reserve(job.items.size());
  for (const ObjectItem& item : job.items) keys.push_back(item.key);
  const auto present = std::make_unique<bool[]>(keys.size());
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const std::uint32_t number = for_tier(job, tier).namespace_number;
    tiers_[tier]->exists(number, keys, {present.get(), keys.size()});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!present[i] || job.items[i].key_is_digest) continue;
      ObjectInfo info;
      const Status status = tiers_[tier]->describe(number, keys[i], &info);
      if (status == Status::kOk && info.leased) statuses[i] = Status::kBusy;
    }
  }
}

Status StackedStore::erase_in(std::size_t first_tier, std::size_t end_tier, const Job& job,
                              std::span<Status> statuses) {
  std::optional<Status> away;
  for (std::size_t tier = end_tier; tier-- > first_tier && !away;) {
    for_each_open(statuses, [&](std::size_t first, std::size_t count) {
      Job erase;
      erase.kind = JobKind::kErase;
      erase.namespace_number = for_tier(job, tier).namespace_number;
      erase.items = job.items.subspan(first, count);
      JobResult result;
      const Status status = tiers_[tier]->run(erase, &result);
      for (std::size_t i = 0; i < count; ++i) {
        const Status item = status == Status::kOk ? result.items[i] : status;
        if (is_away(item)) away = item;
        if (item != Status::kNotFound) statuses[first + i] = item;
      }
    });
  }
  return away.value_or(Status::kOk);
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

bool StackedStore::begin_overwrite(std::size_t tier, const Job& job,
                                   std::unique_lock<ChangeLock>* lock, std::span<Status> statuses) {
  std::ranges::fill(statuses, Status::kOk);
  if (!job.overwrite) return true;
  if (!lock->owns_lock()) lock->lock();
  find_leased(job, statuses);
  // No older copy may be left below a newer one.
  const Status status = erase_in(tier + 1, tiers_.size(), job, statuses);
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
  std::unique_lock lock(changes_, std::defer_lock);
  if (!begin_overwrite(0, job, &lock, statuses)) return;
  for_each_open(statuses, [&](std::size_t first, std::size_t count) {
    const Job part = slice(job, first, count);
    const std::span<Status> part_below = std::span(below).subspan(first, count);
    for (std::size_t tier = tiers_.size(); tier-- > 1 && options_.write_through;) {
      run_in(tier, part, may_evict(job, tier), part_below);
    }
    run_in(0, part, false, statuses.subspan(first, count));
  });
  for (std::size_t i = 0; i < statuses.size() && job.overwrite; ++i) {
    // Leased only just now, what is above stays.
    if (statuses[i] == Status::kBusy && below[i] == Status::kOk) {
      (void)erase_in(1, tiers_.size(), slice(job, i, 1), std::span(below).subspan(i, 1));
    }
  }
  if (lock.owns_lock()) lock.unlock();
  const auto deadline = deadline_after(options_.patience);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    if (options_.write_through && statuses[i] == Status::kOk) statuses[i] = below[i];
    if (statuses[i] != Status::kPoolFull) continue;
    // Written through, it is where it has to be.
    set_where_there_is_room(slice(job, i, 1), below[i] == Status::kOk ? Clock::now() : deadline,
                            &statuses[i]);
  }
}

void StackedStore::set_in(std::size_t tier, const Job& job, bool evict, Status* status) {
  std::unique_lock lock(changes_, std::defer_lock);
  // What the mover has in its hands nobody can evict.
  if (evict) lock.lock();
  const std::span<Status> statuses(status, 1);
  if (!begin_overwrite(tier, job, &lock, statuses) || *status != Status::kOk) return;
  run_in(tier, job, evict, statuses);
  if (!job.overwrite || *status != Status::kOk) return;
  // An older copy above would be found first.
  const Status away = erase_in(0, tier, job, statuses);
  if (away != Status::kOk) *status = away;
  if (*status == Status::kBusy) {
    // Leased only just now, it stays.
    Status withdrawn = Status::kOk;
    (void)erase_in(tier, tier + 1, job, std::span(&withdrawn, 1));
  }
}

void StackedStore::set_where_there_is_room(const Job& job, Clock::time_point deadline,
                                           Status* status) {
  while (wait_for_room(*status, deadline)) set_in(0, job, false, status);
  for (std::size_t tier = 1; tier < tiers_.size() && *status == Status::kPoolFull; ++tier) {
    set_in(tier, job, may_evict(job, tier), status);
    if (is_away(*status)) *status = Status::kPoolFull;
  }
  // All below is leased or away: what is above cannot go down.
  if (*status == Status::kPoolFull && job.evict) set_in(0, job, true, status);
}

void StackedStore::set_parts(const Job& job, std::span<Status> statuses) {
  // All parts go to the first tier: in two of them an object would never be whole.
  std::unique_lock lock(changes_, std::defer_lock);
  if (!begin_overwrite(0, job, &lock, statuses)) return;
  for_each_open(statuses, [&](std::size_t first, std::size_t count) {
    run_in(0, slice(job, first, count), false, statuses.subspan(first, count));
  });
  if (lock.owns_lock()) lock.unlock();
  const auto deadline = deadline_after(options_.patience);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const Job one = slice(job, i, 1);
    while (wait_for_room(statuses[i], deadline)) set_in(0, one, false, &statuses[i]);
    if (statuses[i] == Status::kPoolFull && job.evict) set_in(0, one, true, &statuses[i]);
  }
}

void StackedStore::erase(const Job& job, std::span<Status> statuses) {
  std::ranges::fill(statuses, Status::kNotFound);
  const std::scoped_lock lock(changes_);
  find_leased(job, statuses);
  const Status status = erase_in(0, tiers_.size(), job, statuses);
  // Erased above, it would come back from below.
  if (status != Status::kOk) std::ranges::fill(statuses, status);
}

}  // namespace nearkv
