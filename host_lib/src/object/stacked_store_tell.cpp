// What a stack tells of its tiers, and how they are looked after.
#include <algorithm>
#include <map>

#include "object/stacked_store.hpp"

namespace nearkv {
namespace {

// In the numbers of a stack's records, the tier stands above the record.
constexpr unsigned kTierShift = 28;
constexpr std::uint32_t kRecordMask = (1U << kTierShift) - 1;

}  // namespace

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
    all.max_objects += stats.max_objects;
    all.max_namespaces = std::min(all.max_namespaces, stats.max_namespaces);
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

std::vector<NamespaceInfo> StackedStore::namespaces() const {
  std::vector<NamespaceInfo> all = tiers_.front()->namespaces();
  const std::scoped_lock lock(opening_);
  for (NamespaceInfo& info : all) {
    const auto users = users_.find(info.number);
    info.users = users != users_.end() ? users->second : 0;
  }
  for (std::size_t tier = 1; tier < tiers_.size(); ++tier) {
    for (const NamespaceInfo& below : tiers_[tier]->namespaces()) {
      const auto same = std::ranges::find(all, below.digest, &NamespaceInfo::digest);
      if (same != all.end()) same->objects += below.objects;
    }
  }
  return all;
}

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
  progress->next = first & kRecordMask;
  const Status status = tiers_[tier]->verify(progress->next, most, progress);
  // Its end is the beginning of the next one; what failed is where the next step goes on.
  const bool is_whole = status == Status::kOk && progress->next == 0;
  progress->next |= (is_whole ? tier + 1 : tier) << kTierShift;
  if (is_whole && tier + 1 == tiers_.size()) progress->next = 0;
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
