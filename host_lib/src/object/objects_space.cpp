// Room for objects: reserving it, and freeing it by eviction.
#include <algorithm>
#include <iterator>
#include <utility>

#include "object/extent_list.hpp"
#include "object/objects.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kMostRefused = 65536;

}  // namespace

Status Objects::reserve(bool may_evict, Incoming* incoming) {
  end_expired_leases();
  drop_stale_partials();
  const std::scoped_lock lock(space_);
  // A chain that is too long keeps its beginning: what comes later makes nothing go that it hangs
  // on, and nothing at all where a part of the chain before it was refused.
  const bool hangs = refused_.contains(incoming->record.parent);
  const Status status = reserve_room(may_evict && !hangs, incoming);
  if (status == Status::kOk) {
    refused_.erase(incoming->fingerprint);
  } else if (may_evict && (incoming->record.flags & NKV_OBJECT_FLAG_CHAINED) != 0) {
    if (refused_.size() == kMostRefused) refused_.clear();
    refused_.insert(incoming->fingerprint);
  }
  return status;
}

Status Objects::reserve_room(bool may_evict, Incoming* incoming) {
  const nkv_object_record& record = incoming->record;
  const std::uint64_t bytes = std::uint64_t{record.grains} * NKV_OBJECT_GRAIN_BYTES;
  const std::uint64_t ancestor = incoming->ancestor;
  Tenants::Tenant& owner = tenants_.at(record.tenant);
  if (owner.wipe) incoming->record.flags |= NKV_OBJECT_FLAG_WIPE;
  if (bytes > owner.quota_bytes) return Status::kQuota;
  while (owner.used_bytes + bytes > owner.quota_bytes) {
    if (evict(record.tenant, owner.used_bytes + bytes - owner.quota_bytes, !may_evict, ancestor) ==
        0) {
      return Status::kQuota;
    }
  }
  std::optional<ObjectId> id = records_.take();
  while (!id || !allocate(incoming, ExtentAllocator::Reach::kAnySlab)) {
    if (evict_anybody(bytes, !may_evict, ancestor) == 0) {
      if (id) records_.release(*id);
      return Status::kPoolFull;
    }
    if (!id) id = records_.take();
  }
  incoming->id = *id;
  occupy(*incoming);
  count_churn(bytes);
  return Status::kOk;
}

void Objects::on_churn(double share, std::function<void()> tell) {
  const std::scoped_lock lock(space_);
  churn_share_ = share;
  tell_churn_ = std::move(tell);
}

void Objects::count_churn(std::uint64_t bytes) {
  churned_bytes_ += bytes;
  if (!tell_churn_ || churned_bytes_ < pool_->slabs().slab_bytes()) return;
  const auto owned_bytes =
      static_cast<double>(extents_.usage().owned_grains * NKV_OBJECT_GRAIN_BYTES);
  if (static_cast<double>(churned_bytes_) < churn_share_ * owned_bytes) return;
  churned_bytes_ = 0;
  tell_churn_();
}

void Objects::occupy(const Incoming& incoming) {
  ObjectState& state = states_[incoming.id];
  state.set(incoming.fingerprint, incoming.record);
  state.chained = false;
  tenants_.at(state.tenant).used_bytes += std::uint64_t{state.grains} * NKV_OBJECT_GRAIN_BYTES;
}

bool Objects::allocate(Incoming* incoming, ExtentAllocator::Reach reach) {
  if (!extents_.allocate(incoming->record.grains, &incoming->extents, reach)) return false;
  incoming->has_list = incoming->extents.size() > NKV_RECORD_EXTENTS;
  if (!incoming->has_list) return true;
  std::vector<Extent> list;
  if (extents_.allocate(1, &list, reach)) {
    incoming->extents.push_back(list.front());
    return true;
  }
  (void)extents_.release(incoming->extents);
  incoming->extents.clear();
  return false;
}

std::uint64_t Objects::evict(std::uint16_t tenant, std::uint64_t bytes, bool only_expired,
                             std::uint64_t ancestor) {
  std::vector<ObjectId> victims;
  std::uint64_t freed_bytes = 0;
  Evictor& evictor = *tenants_.at(tenant).evictor;
  const std::uint64_t clock_s = now_s();
  const auto evictable = [&](ObjectId id) { return !states_.in_use(id); };
  while (freed_bytes < bytes) {
    std::optional<ObjectId> victim = evictor.expired(clock_s, evictable);
    const bool expired = victim.has_value();
    if (!expired && !only_expired) victim = evictor.victim(clock_s, evictable);
    if (!victim) break;
    if (!expired && tree_.leads_to(states_[*victim].fingerprint, ancestor)) break;
    // A reader may have come in between: then the next one goes, and this one stays known.
    if (!forget(*victim, StoreEvent::Kind::kEvicted, Held::kByAnyUse)) continue;
    StoreCounters::add(expired ? counters_.expirations : counters_.evictions, 1);
    freed_bytes += std::uint64_t{states_[*victim].grains} * NKV_OBJECT_GRAIN_BYTES;
    victims.push_back(*victim);
  }
  unpublish(victims);
  return freed_bytes;
}

std::uint64_t Objects::evict_anybody(std::uint64_t bytes, bool only_expired,
                                     std::uint64_t ancestor) {
  const std::vector<std::uint16_t> turns = tenants_.in_turn();
  for (const bool expired : {true, false}) {
    if (only_expired && !expired) break;
    for (const std::uint16_t tenant : turns) {
      const std::uint64_t freed_bytes = evict(tenant, bytes, expired, ancestor);
      if (freed_bytes != 0) return freed_bytes;
    }
  }
  return 0;
}

bool Objects::forget(ObjectId id, StoreEvent::Kind why, Held held) {
  const auto is_held = [&] {
    return (held == Held::kByLeases && states_.leased(id)) ||
           (held == Held::kByAnyUse && states_.in_use(id));
  };
  const auto erased = index_.erase(states_[id].fingerprint,
                                   [&](ObjectId found) { return found == id && !is_held(); });
  if (!erased) return false;
  tell(why, id);
  withdraw(id, why);
  count_churn(std::uint64_t{states_[id].grains} * NKV_OBJECT_GRAIN_BYTES);
  return true;
}

void Objects::tell(StoreEvent::Kind kind, ObjectId id) {
  if (most_events_ == 0) return;
  const std::optional<ObjectInfo> info = describe(id);
  if (!info) return;
  if (events_.size() == most_events_) {
    events_.pop_front();
    ++missed_events_;
  }
  events_.push_back({kind, 0, info->namespace_number, info->bytes, info->key, info->key_is_digest});
}

void Objects::enlist(ObjectId id, const nkv_object_record& record) {
  ObjectState& state = states_[id];
  Entry entry;
  entry.id = id;
  entry.fingerprint = state.fingerprint;
  entry.bytes = state.grains * NKV_OBJECT_GRAIN_BYTES;
  if (record.expires_s != 0) entry.expires_s = record.expires_s;
  if ((record.flags & NKV_OBJECT_FLAG_CHAINED) != 0) {
    PrefixTree::Block block{state.fingerprint, std::nullopt, id};
    if (record.parent != 0) {
      block.parent = record.parent;
      entry.parent = tree_.find(record.parent).value_or(kNoObject);
    }
    // Refused: the key's prefix is another one than before. It is found by its key alone.
    state.chained = tree_.insert(block);
  }
  tenants_.at(state.tenant).evictor->insert(entry);
  state.known = true;
  StoreCounters::add(counters_.objects, 1);
  StoreCounters::add(counters_.object_bytes, record.bytes);
}

void Objects::withdraw(ObjectId id, StoreEvent::Kind why) {
  ObjectState& state = states_[id];
  const Removal removal = why == StoreEvent::Kind::kEvicted ? Removal::kEvicted : Removal::kDeleted;
  if (state.chained) tree_.erase(state.fingerprint);
  tenants_.at(state.tenant).evictor->erase(id, removal);
  state.known = false;
  counters_.objects.fetch_sub(1, std::memory_order_relaxed);
  counters_.object_bytes.fetch_sub(state.bytes, std::memory_order_relaxed);
}

void Objects::unpublish(std::span<const ObjectId> ids) {
  if (ids.empty()) return;
  std::vector<std::vector<Extent>> extents(ids.size());
  std::vector<bool> stays_doomed(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    nkv_object_record record{};
    // What a damaged record held is not known; the next open() finds it free.
    Status status = load(ids[i], &record, &extents[i]);
    const bool doomed = states_[ids[i]].wipe && status != Status::kCorrupt;
    const Status published =
        records_.publish(ids[i], doomed ? NKV_OBJECT_STATE_DOOMED : NKV_OBJECT_STATE_FREE);
    if (status == Status::kOk) status = published;
    if (status != Status::kOk) extents[i].clear();
    stays_doomed[i] = doomed && status != Status::kOk;
  }
  persistence_->fence();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (stays_doomed[i]) continue;
    if (states_.retire(ids[i])) {
      free_space(ids[i], extents[i]);
    } else {
      retired_.emplace(ids[i], std::move(extents[i]));
    }
  }
}

void Objects::free_space(ObjectId id, std::span<const Extent> extents) {
  ObjectState& state = states_[id];
  if (state.wipe) {
    // A medium that cannot be written keeps the room, and the record says why.
    if (payload_->wipe(extents) != Status::kOk) return;
    persistence_->fence();
    if (records_.publish(id, NKV_OBJECT_STATE_FREE) != Status::kOk) return;
    persistence_->fence();
    state.wipe = false;
  }
  (void)extents_.release(extents);
  tenants_.at(state.tenant).used_bytes -= std::uint64_t{state.grains} * NKV_OBJECT_GRAIN_BYTES;
  namespaces_.drop(state.namespace_number);
  states_.reset(id);
  records_.release(id);
}

void Objects::free_retired(ObjectId id) {
  const std::scoped_lock lock(space_);
  const auto found = retired_.find(id);
  if (found == retired_.end()) return;  // Quarantined.
  const std::vector<Extent> extents = std::move(found->second);
  retired_.erase(found);
  free_space(id, extents);
}

void Objects::set_wipe(std::uint16_t tenant, bool wipe) {
  const std::scoped_lock lock(space_);
  tenants_.at(tenant).wipe = wipe;
}

void Objects::watch(std::size_t most) {
  const std::scoped_lock lock(space_);
  most_events_ = most;
  events_.clear();
  missed_events_ = 0;
}

std::vector<StoreEvent> Objects::take_events(std::uint64_t* missed) {
  const std::scoped_lock lock(space_);
  std::vector<StoreEvent> events(std::make_move_iterator(events_.begin()),
                                 std::make_move_iterator(events_.end()));
  events_.clear();
  *missed = std::exchange(missed_events_, 0);
  return events;
}

Status Objects::set_quota(std::uint16_t tenant, std::uint64_t bytes) {
  end_expired_leases();
  const std::scoped_lock lock(space_);
  Tenants::Tenant& owner = tenants_.at(tenant);
  owner.quota_bytes = bytes;
  if (owner.used_bytes > bytes) (void)evict(tenant, owner.used_bytes - bytes);
  return Status::kOk;
}

}  // namespace nearkv
