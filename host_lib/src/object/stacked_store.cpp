#include "object/stacked_store.hpp"

#include <algorithm>
#include <shared_mutex>
#include <system_error>

#include "edge.hpp"
#include "object/object_jobs.hpp"
#include "object/process_bound_store.hpp"

namespace nearkv {

Status ObjectStore::stack(std::vector<std::unique_ptr<ObjectStore>>&& tiers,
                          const StackOptions& options, std::unique_ptr<ObjectStore>* store,
                          std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::unique_ptr<ObjectStore> opened;
    const Status status = StackedStore::open(std::move(tiers), options, &opened,
                                             reason != nullptr ? reason : &ignored);
    if (status == Status::kOk) *store = ProcessBoundStore::make(std::move(opened));
    return status;
  });
}

Status StackedStore::open(Tiers&& tiers, const StackOptions& options,
                          std::unique_ptr<ObjectStore>* store, std::string* reason) {
  const auto owned = std::make_shared<Tiers>(std::move(tiers));
  const Status status = at_edge([&] { return open(owned, options, store, reason); });
  if (status != Status::kOk) tiers = std::move(*owned);
  return status;
}

Status StackedStore::open(const std::shared_ptr<Tiers>& tiers, const StackOptions& options,
                          std::unique_ptr<ObjectStore>* store, std::string* reason) {
  if (tiers->size() < 2) {
    *reason = "a stack has at least two tiers";
    return Status::kBadArgument;
  }
  if (!(options.low_watermark > 0 && options.low_watermark < options.high_watermark &&
        options.high_watermark <= 1)) {
    *reason = "watermarks are fractions, the low one below the high one";
    return Status::kBadArgument;
  }
  std::unique_ptr<StackedStore> opened;
  try {
    opened.reset(new StackedStore(tiers, options));
  } catch (const std::system_error& error) {
    *reason = std::string("the machine gives the stack no threads or events: ") + error.what();
    return Status::kIoError;
  }
  // Every tier knows the namespaces of all, so that objects can move without anybody's help.
  for (std::size_t tier = 0; tier < opened->tiers_.size(); ++tier) {
    for (const NamespaceInfo& info : opened->tiers_[tier]->namespaces()) {
      if (info.objects == 0) continue;
      std::uint32_t number = 0;
      Status status = opened->adopt_namespace(info, &number);
      if (status == Status::kOk) status = opened->close_namespace(number);
      if (status != Status::kOk) {
        *reason = "a tier has no room for the namespaces of another";
        return status;
      }
    }
  }
  *store = std::move(opened);
  return Status::kOk;
}

StackedStore::StackedStore(std::shared_ptr<Tiers> tiers, const StackOptions& options)
    : tiers_owner_(std::move(tiers)),
      tiers_(*tiers_owner_),
      options_(options),
      mover_(tiers_, options, &numbers_, &changes_.order),
      jobs_([this](const Job& job, std::size_t first, std::size_t count,
                   JobResult* result) { run_items(job, first, count, result); },
            options.workers) {}

void StackedStore::close_in_tiers(std::span<const std::uint32_t> numbers) {
  for (std::size_t tier = 0; tier < numbers.size(); ++tier) {
    (void)tiers_[tier]->close_namespace(numbers[tier]);
  }
}

template <typename Open>
Status StackedStore::open_in_tiers(Open open, std::vector<std::uint32_t>* numbers) {
  numbers->clear();
  for (const auto& tier : tiers_) {
    std::uint32_t number = 0;
    if (const Status status = open(tier.get(), &number); status != Status::kOk) {
      close_in_tiers(*numbers);
      return status;
    }
    numbers->push_back(number);
  }
  return Status::kOk;
}

template <typename Open>
Status StackedStore::open_by(Open open, std::uint32_t* number) {
  return at_edge([&] {
    const std::scoped_lock lock(opening_);
    std::vector<std::uint32_t> numbers;
    Status status = open_in_tiers(open, &numbers);
    if (status == Status::kNamespacesFull && close_unused()) status = open_in_tiers(open, &numbers);
    if (status != Status::kOk) return status;
    *number = numbers.front();
    if (numbers_.in_tier(*number, 0)) {
      close_in_tiers(numbers);
    } else {
      numbers_.add(std::move(numbers));
    }
    ++users_[*number];
    return Status::kOk;
  });
}

Status StackedStore::open_namespace(const Namespace& name, std::uint32_t* number) {
  return open_by(
      [&](ObjectStore* tier, std::uint32_t* its) { return tier->open_namespace(name, its); },
      number);
}

Status StackedStore::adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) {
  return open_by(
      [&](ObjectStore* tier, std::uint32_t* its) { return tier->adopt_namespace(info, its); },
      number);
}

Status StackedStore::close_namespace(std::uint32_t number) {
  const std::scoped_lock lock(opening_);
  const auto found = users_.find(number);
  if (found == users_.end()) return Status::kNotFound;
  if (--found->second == 0) users_.erase(found);
  return Status::kOk;
}

Status StackedStore::limit_namespaces(std::uint16_t tenant, std::uint32_t most) {
  return tiers_.front()->limit_namespaces(tenant, most);
}

bool StackedStore::close_unused() {
  const std::scoped_lock lock(changes_.order);  // Else the mover might have objects in its hands.
  std::vector<std::vector<NamespaceInfo>> infos;
  infos.reserve(tiers_.size());
  for (const auto& tier : tiers_) infos.push_back(tier->namespaces());
  bool any = false;
  for (const NamespaceInfo& info : infos.front()) {
    if (users_.contains(info.number) || !numbers_.in_tier(info.number, 0)) continue;
    std::vector<std::uint32_t> numbers;
    for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
      const auto found = std::ranges::find(infos[tier], info.digest, &NamespaceInfo::digest);
      if (found != infos[tier].end() && found->objects == 0) numbers.push_back(found->number);
    }
    if (numbers.size() != tiers_.size()) continue;
    numbers_.remove(info.number);
    close_in_tiers(numbers);
    any = true;
  }
  return any;
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
  const Job part = slice(job, first, count);
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
    case JobKind::kExists:
      find(part, statuses);
      break;
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

void StackedStore::find(const Job& job, std::span<Status> statuses) {
  std::ranges::fill(statuses, Status::kNotFound);
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    JobResult result;
    if (tiers_[tier]->run(for_tier(job, tier), &result) != Status::kOk) continue;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if (result.items[i] == Status::kOk) statuses[i] = Status::kOk;
    }
  }
}

void StackedStore::promote(const Job& job, const ObjectItem& item, std::size_t tier) {
  if (item.key_is_digest) return;
  if (hotness_.count(job.namespace_number, item.key) < options_.promote_after) return;
  ObjectStore* const below = tiers_[tier].get();
  const std::scoped_lock lock(changes_.order);
  ObjectInfo info;
  const Status status = below->describe(for_tier(job, tier).namespace_number, item.key, &info);
  if (status != Status::kOk) return;
  // Read again: what was copied to the target is the caller's, who may have changed it by now.
  TierCopy copy(info, options_.clock);
  if (copy.read(below) == Status::kOk &&
      copy.write(tiers_.front().get(), job.namespace_number, false, false) == Status::kOk) {
    ++promotions_;
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
  const std::shared_lock changes(changes_.leasing);
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

}  // namespace nearkv
