#include "object/stacked_store.hpp"

#include <algorithm>
#include <thread>

#include "edge.hpp"
#include "media/segments.hpp"
#include "object/deadline.hpp"
#include "object/object_jobs.hpp"

namespace nearkv {
namespace {

// In the numbers of a stack's records, the tier stands above the record.
constexpr unsigned kTierShift = 28;
constexpr std::uint32_t kRecordMask = (1U << kTierShift) - 1;
// How often a set asks again whether there is room.
constexpr std::chrono::microseconds kPoll{200};

/// The first thing in a job's outcome that says that its tier was not reached.
std::optional<Status> first_away(Status status, const JobResult& result) {
  if (status != Status::kOk) return is_away(status) ? std::optional(status) : std::nullopt;
  const auto found = std::ranges::find_if(result.items, is_away);
  return found != result.items.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace

Status ObjectStore::stack(std::vector<std::unique_ptr<ObjectStore>> tiers,
                          const StackOptions& options, std::unique_ptr<ObjectStore>* store,
                          std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    return StackedStore::open(std::move(tiers), options, store,
                              reason != nullptr ? reason : &ignored);
  });
}

Status StackedStore::open(std::vector<std::unique_ptr<ObjectStore>> tiers,
                          const StackOptions& options, std::unique_ptr<ObjectStore>* store,
                          std::string* reason) {
  if (tiers.size() < 2) {
    *reason = "a stack has at least two tiers";
    return Status::kBadArgument;
  }
  if (!(options.low_watermark > 0 && options.low_watermark < options.high_watermark &&
        options.high_watermark <= 1)) {
    *reason = "watermarks are fractions, the low one below the high one";
    return Status::kBadArgument;
  }
  std::unique_ptr<StackedStore> opened(new StackedStore(std::move(tiers), options));
  // Every tier knows the namespaces of all, so that objects can move without anybody's help.
  for (std::size_t tier = 0; tier < opened->tiers_.size(); ++tier) {
    for (const NamespaceInfo& info : opened->tiers_[tier]->namespaces()) {
      std::uint32_t number = 0;
      const Status status = opened->adopt_namespace(info, &number);
      if (status != Status::kOk) {
        *reason = "a tier has no room for the namespaces of another";
        return status;
      }
    }
  }
  *store = std::move(opened);
  return Status::kOk;
}

StackedStore::StackedStore(std::vector<std::unique_ptr<ObjectStore>> tiers,
                           const StackOptions& options)
    : tiers_(std::move(tiers)),
      options_(options),
      jobs_([this](const Job& job, std::size_t first, std::size_t count,
                   JobResult* result) { run_items(job, first, count, result); },
            options.workers),
      mover_(tiers_, options, &numbers_, &order_) {}

Status StackedStore::open_namespace(const Namespace& name, std::uint32_t* number) {
  std::vector<std::uint32_t> numbers(tiers_.size());
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const Status status = tiers_[tier]->open_namespace(name, &numbers[tier]);
    if (status != Status::kOk) return status;
  }
  *number = numbers.front();
  return at_edge([&] {
    numbers_.add(std::move(numbers));
    return Status::kOk;
  });
}

Status StackedStore::adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) {
  std::vector<std::uint32_t> numbers(tiers_.size());
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const Status status = tiers_[tier]->adopt_namespace(info, &numbers[tier]);
    if (status != Status::kOk) return status;
  }
  *number = numbers.front();
  return at_edge([&] {
    numbers_.add(std::move(numbers));
    return Status::kOk;
  });
}

Job StackedStore::for_tier(Job job, std::size_t tier) const {
  job.namespace_number = numbers_.in_tier(job.namespace_number, tier).value_or(~0U);
  return job;
}

Status StackedStore::submit(const Job& job, JobId* id) {
  return at_edge([&] {
    const bool known = numbers_.in_tier(job.namespace_number, 0).has_value();
    const Status status = known ? check_job(job) : Status::kBadArgument;
    return status == Status::kOk ? jobs_.submit(job, id) : status;
  });
}

Status StackedStore::wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) {
  return at_edge([&] { return jobs_.wait(id, timeout, result); });
}

Status StackedStore::cancel(JobId id) {
  return at_edge([&] { return jobs_.cancel(id); });
}

Status StackedStore::run(const Job& job, JobResult* result) {
  return at_edge([&] {
    const bool known = numbers_.in_tier(job.namespace_number, 0).has_value();
    const Status status = known ? check_job(job) : Status::kBadArgument;
    if (status != Status::kOk) return status;
    prepare_result(job, result);
    run_items(job, 0, job.items.size(), result);
    return Status::kOk;
  });
}

void StackedStore::run_items(const Job& job, std::size_t first, std::size_t count,
                             JobResult* result) {
  Job part = job;
  part.items = job.items.subspan(first, count);
  if (job.chain && first != 0) part.parent = job.items[first - 1].key;
  const std::span<Status> statuses = std::span(result->items).subspan(first, count);
  switch (job.kind) {
    case JobKind::kGet:
      get(part, statuses, std::span(result->object_bytes).subspan(first, count));
      break;
    case JobKind::kSet:
      set(part, statuses);
      break;
    case JobKind::kSetParts:
      set_parts(part, statuses);
      break;
    case JobKind::kErase:
      erase(part, statuses);
      break;
    case JobKind::kExists: {
      std::vector<Key> keys;
      keys.reserve(count);
      for (const ObjectItem& item : part.items) keys.push_back(item.key);
      const auto present = std::make_unique<bool[]>(count);
      exists(job.namespace_number, keys, {present.get(), count});
      for (std::size_t i = 0; i < count; ++i) {
        statuses[i] = present[i] ? Status::kOk : Status::kNotFound;
      }
      break;
    }
  }
}

void StackedStore::get(const Job& job, std::span<Status> statuses,
                       std::span<std::uint32_t> object_bytes) {
  std::vector<std::size_t> missing(job.items.size());
  for (std::size_t i = 0; i < missing.size(); ++i) missing[i] = i;
  for (std::size_t tier = 0; tier < tiers_.size() && !missing.empty(); ++tier) {
    std::vector<ObjectItem> items;
    items.reserve(missing.size());
    for (const std::size_t i : missing) items.push_back(job.items[i]);
    Job part = for_tier(job, tier);
    part.items = items;
    JobResult result;
    const Status status = tiers_[tier]->run(part, &result);
    std::vector<std::size_t> still_missing;
    for (std::size_t k = 0; k < missing.size(); ++k) {
      const std::size_t i = missing[k];
      statuses[i] = status == Status::kOk ? result.items[k] : status;
      if (status == Status::kOk) object_bytes[i] = result.object_bytes[k];
      if (statuses[i] == Status::kOk) {
        if (tier != 0 && !job.quiet) promote(job, job.items[i], tier);
      } else if (statuses[i] != Status::kBadArgument) {
        // Also what is damaged here may be whole below.
        still_missing.push_back(i);
      }
    }
    missing = std::move(still_missing);
  }
}

void StackedStore::promote(const Job& job, const ObjectItem& item, std::size_t tier) {
  if (item.key_is_digest) return;
  if (hotness_.count(job.namespace_number, item.key) < options_.promote_after) return;
  Job get = for_tier(job, tier);
  // Nobody erases or replaces it meanwhile.
  const std::scoped_lock lock(order_);
  ObjectInfo info;
  if (tiers_[tier]->describe(get.namespace_number, item.key, &info) != Status::kOk) return;
  // Read again: what was copied to the target is the caller's, who may have changed it by now.
  std::vector<std::byte> contents(info.bytes);
  const std::span<std::byte> target(contents);
  const std::span<const std::byte> source(contents);
  ObjectItem copy;
  copy.key = item.key;
  copy.generation = info.generation;
  copy.target = std::span(&target, 1);
  copy.source = std::span(&source, 1);
  get.items = std::span(&copy, 1);
  get.quiet = true;
  Job set;
  set.kind = JobKind::kSet;
  set.namespace_number = job.namespace_number;
  set.items = get.items;
  set.evict = false;
  set.parts = info.parts;
  const auto age = remaining_age(info);
  if (!age) return;
  set.age = *age;
  JobResult result;
  if (tiers_[tier]->run(get, &result) != Status::kOk || !result.all_ok()) return;
  if (tiers_.front()->run(set, &result) == Status::kOk && result.all_ok()) ++promotions_;
}

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

void StackedStore::set(const Job& job, std::span<Status> statuses) {
  std::vector<Status> below(statuses.size(), Status::kPoolFull);
  std::unique_lock lock(order_, std::defer_lock);
  if (job.overwrite) {
    lock.lock();
    // No older copy may be left below a newer one.
    if (const Status status = erase_in(1, tiers_.size(), job); status != Status::kOk) {
      std::ranges::fill(statuses, status);
      return;
    }
  }
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
    if (job.overwrite) {
      lock.lock();
      *status = erase_in(tier + 1, tiers_.size(), job);
      if (*status != Status::kOk) return;
    }
    run_in(tier, job, evict, std::span(status, 1));
    // An older copy above would be found first.
    if (job.overwrite && *status == Status::kOk) *status = erase_in(0, tier, job);
  };
  while (*status == Status::kPoolFull && !mover_.is_cut_off() && Clock::now() < deadline) {
    mover_.wake();
    std::this_thread::sleep_for(kPoll);
    set_in(0, false);
  }
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
  if (job.overwrite) {
    lock.lock();
    if (const Status status = erase_in(1, tiers_.size(), job); status != Status::kOk) {
      std::ranges::fill(statuses, status);
      return;
    }
  }
  run_in(0, job, false, statuses);
  if (lock.owns_lock()) lock.unlock();
  const auto deadline = deadline_after(options_.patience);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    Job one = job;
    one.items = job.items.subspan(i, 1);
    while (statuses[i] == Status::kPoolFull && !mover_.is_cut_off() && Clock::now() < deadline) {
      mover_.wake();
      std::this_thread::sleep_for(kPoll);
      run_in(0, one, false, statuses.subspan(i, 1));
    }
    if (statuses[i] == Status::kPoolFull && job.evict) {
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

std::size_t StackedStore::exists(std::uint32_t namespace_number, std::span<const Key> keys,
                                 std::span<bool> present) {
  const auto any = std::make_unique<bool[]>(keys.size());
  const auto here = std::make_unique<bool[]>(keys.size());
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const auto number = numbers_.in_tier(namespace_number, tier);
    if (!number) continue;
    tiers_[tier]->exists(*number, keys, {here.get(), keys.size()});
    for (std::size_t i = 0; i < keys.size(); ++i) any[i] = any[i] || here[i];
  }
  if (!present.empty()) std::copy_n(any.get(), keys.size(), present.begin());
  return static_cast<std::size_t>(std::find(any.get(), any.get() + keys.size(), false) - any.get());
}

std::size_t StackedStore::match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) {
  std::size_t matched = 0;
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const auto number = numbers_.in_tier(namespace_number, tier);
    if (number) matched = std::max(matched, tiers_[tier]->match_prefix(*number, chain));
  }
  // The next block may be in another tier than those before it.
  return matched + exists(namespace_number, chain.subspan(matched), {});
}

void StackedStore::touch(std::uint32_t namespace_number, std::span<const Key> keys) {
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const auto number = numbers_.in_tier(namespace_number, tier);
    if (number) tiers_[tier]->touch(*number, keys);
  }
}

LeaseId StackedStore::pin(std::uint32_t namespace_number, std::span<const Key> keys,
                          std::chrono::nanoseconds duration, std::span<Status> statuses) {
  std::ranges::fill(statuses, Status::kNotFound);
  std::vector<LeaseId> leases(tiers_.size(), 0);
  std::vector<Status> here(keys.size());
  bool any = false;
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    const auto number = numbers_.in_tier(namespace_number, tier);
    if (!number) continue;
    leases[tier] = tiers_[tier]->pin(*number, keys, duration, here);
    any = any || leases[tier] != 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (here[i] == Status::kOk) statuses[i] = Status::kOk;
    }
  }
  if (!any) return 0;
  const std::scoped_lock lock(leases_mutex_);
  leases_.emplace(next_lease_, std::move(leases));
  return next_lease_++;
}

Status StackedStore::unpin(LeaseId lease) {
  std::vector<LeaseId> leases;
  {
    const std::scoped_lock lock(leases_mutex_);
    const auto found = leases_.find(lease);
    if (found == leases_.end()) return Status::kNotFound;
    leases = std::move(found->second);
    leases_.erase(found);
  }
  Status status = Status::kNotFound;
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    if (leases[tier] != 0 && tiers_[tier]->unpin(leases[tier]) == Status::kOk) {
      status = Status::kOk;
    }
  }
  return status;
}

Status StackedStore::set_quota(std::uint16_t tenant, std::uint64_t bytes) {
  return tiers_.back()->set_quota(tenant, bytes);
}

Status StackedStore::set_wipe(std::uint16_t tenant, bool wipe) {
  for (const auto& tier : tiers_) {
    if (const Status status = tier->set_wipe(tenant, wipe); status != Status::kOk) return status;
  }
  return Status::kOk;
}

Status StackedStore::watch(std::size_t most) {
  for (const auto& tier : tiers_) {
    if (const Status status = tier->watch(most); status != Status::kOk) return status;
  }
  return Status::kOk;
}

std::vector<StoreEvent> StackedStore::take_events(std::uint64_t* missed) {
  *missed = 0;
  std::vector<StoreEvent> all;
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    std::uint64_t missed_here = 0;
    for (StoreEvent& event : tiers_[tier]->take_events(&missed_here)) {
      const auto number = numbers_.in_stack(event.namespace_number, tier);
      if (!number) continue;
      event.namespace_number = *number;
      event.tier = static_cast<std::uint8_t>(tier);
      all.push_back(std::move(event));
    }
    *missed += missed_here;
  }
  return all;
}

ObjectStoreStats StackedStore::stats() const {
  ObjectStoreStats all = tiers_.front()->stats();
  for (std::size_t tier = 1; tier < tiers_.size(); ++tier) {
    const ObjectStoreStats stats = tiers_[tier]->stats();
    all.total_bytes += stats.total_bytes;
    all.slab_bytes += stats.slab_bytes;
    all.used_bytes += stats.used_bytes;
    all.object_bytes += stats.object_bytes;
    all.objects += stats.objects;
    all.hits += stats.hits;
    all.get_bytes += stats.get_bytes;
    all.evictions += stats.evictions;
    all.moved += stats.moved;
    all.corruptions += stats.corruptions;
    all.quarantined += stats.quarantined;
  }
  // A miss above that was a hit below is none.
  all.misses = tiers_.back()->stats().misses;
  all.promotions = promotions_;
  all.demotions = mover_.demotions();
  return all;
}

std::vector<ObjectStoreStats> StackedStore::tier_stats() const {
  std::vector<ObjectStoreStats> stats;
  stats.reserve(tiers_.size());
  for (const auto& tier : tiers_) stats.push_back(tier->stats());
  return stats;
}

std::vector<NamespaceInfo> StackedStore::namespaces() const { return tiers_.front()->namespaces(); }

Status StackedStore::describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) {
  Status status = Status::kNotFound;
  for (std::uint32_t tier = 0; tier < tiers_.size(); ++tier) {
    const auto number = numbers_.in_tier(namespace_number, tier);
    if (!number) continue;
    status = tiers_[tier]->describe(*number, key, info);
    if (status != Status::kOk) continue;
    info->namespace_number = namespace_number;
    info->number |= tier << kTierShift;
    break;
  }
  return status;
}

std::vector<ObjectInfo> StackedStore::coldest(std::uint64_t bytes) {
  return tiers_.back()->coldest(bytes);
}

std::vector<ObjectInfo> StackedStore::list(std::uint32_t first, std::size_t most) const {
  std::vector<ObjectInfo> all;
  for (std::uint32_t tier = first >> kTierShift; tier < tiers_.size(); ++tier) {
    const std::uint32_t from = tier == first >> kTierShift ? first & kRecordMask : 0;
    for (ObjectInfo& info : tiers_[tier]->list(from, most - all.size())) {
      const auto number = numbers_.in_stack(info.namespace_number, tier);
      if (!number) continue;
      info.namespace_number = *number;
      info.number |= tier << kTierShift;
      all.push_back(std::move(info));
    }
  }
  return all;
}

Status StackedStore::verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) {
  const std::uint32_t tier = first >> kTierShift;
  if (tier >= tiers_.size()) return Status::kBadArgument;
  const Status status = tiers_[tier]->verify(first & kRecordMask, most, progress);
  if (progress->next != 0) {
    progress->next |= tier << kTierShift;
  } else if (tier + 1 < tiers_.size()) {
    progress->next = (tier + 1) << kTierShift;
  }
  return status;
}

Status StackedStore::defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) {
  *moved_bytes = 0;
  for (const auto& tier : tiers_) {
    std::uint64_t moved = 0;
    const Status status = tier->defragment(most_bytes, &moved);
    *moved_bytes += moved;
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

std::vector<TenantUsage> StackedStore::tenants() const {
  std::map<std::uint16_t, TenantUsage> all;
  for (const auto& tier : tiers_) {
    for (const TenantUsage& usage : tier->tenants()) {
      TenantUsage& sum = all[usage.tenant];
      sum.tenant = usage.tenant;
      sum.used_bytes += usage.used_bytes;
      sum.quota_bytes = usage.quota_bytes;
    }
  }
  std::vector<TenantUsage> usages;
  usages.reserve(all.size());
  for (const auto& [tenant, usage] : all) usages.push_back(usage);
  return usages;
}

}  // namespace nearkv
