#include "object/objects.hpp"

#include <algorithm>
#include <array>

#include "deadline.hpp"
#include "object/fingerprint.hpp"

namespace nearkv {
namespace {

ExtentAllocator::Geometry geometry_of(const nkv_pool_header& header) {
  return {static_cast<std::uint32_t>(header.data_at / NKV_OBJECT_GRAIN_BYTES),
          header.slab_bytes / NKV_OBJECT_GRAIN_BYTES, header.slabs};
}

constexpr std::size_t kBatch = 16;  // As many as FlatIndex searches at once.

}  // namespace

Objects::Objects(std::shared_ptr<PoolMemory> pool, std::unique_ptr<Payload> payload,
                 std::unique_ptr<Seals> seals, TenantOptions tenants,
                 std::chrono::milliseconds patience, WallClock clock)
    : pool_(std::move(pool)),
      persistence_(&pool_->persistence()),
      payload_(std::move(payload)),
      patience_(patience),
      clock_(clock ? std::move(clock) : std::chrono::system_clock::now),
      records_(pool_.get()),
      namespaces_(pool_.get()),
      parts_(payload_.get(), &namespaces_, std::move(seals)),
      states_(records_.size()),
      slabs_(&pool_->slabs()),
      extents_(geometry_of(pool_->header()), &slabs_),
      tenants_(std::move(tenants)) {}

std::uint64_t Objects::fingerprint_of(std::uint32_t namespace_number, const StoredKey& key) const {
  return fingerprint(pool_->header().seed, namespace_number, key.significant());
}

std::size_t Objects::exists(std::uint32_t namespace_number, std::span<const Key> keys,
                            std::span<bool> present) const {
  return find_all(namespace_number, keys, present);
}

std::size_t Objects::exists(std::uint32_t namespace_number, std::span<const ObjectItem> items,
                            std::span<bool> present) const {
  return find_all(namespace_number, items, present);
}

template <typename Name>
std::size_t Objects::find_all(std::uint32_t namespace_number, std::span<const Name> names,
                              std::span<bool> present) const {
  std::size_t leading = 0;
  bool unbroken = true;
  std::array<StoredKey, kBatch> stored;
  std::array<std::uint64_t, kBatch> fingerprints;
  std::array<std::uint32_t, kBatch> found;
  for (std::size_t begin = 0; begin < names.size() && (unbroken || !present.empty());
       begin += kBatch) {
    const std::span<const Name> batch =
        names.subspan(begin, std::min(kBatch, names.size() - begin));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      stored[i] = StoredKey(batch[i]);
      fingerprints[i] = fingerprint_of(namespace_number, stored[i]);
    }
    index_.find_batch(
        std::span(fingerprints).first(batch.size()), [&](ObjectId id) { records_.prefetch(id); },
        [&](std::size_t i, ObjectId id) { return records_.holds(id, stored[i], namespace_number); },
        std::span(found).first(batch.size()));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const bool here = found[i] != FlatIndex::kNoRecord;
      unbroken = unbroken && here;
      if (unbroken) ++leading;
      if (!present.empty()) present[begin + i] = here;
    }
  }
  return leading;
}

std::size_t Objects::match_prefix(std::uint32_t namespace_number,
                                  std::span<const Key> chain) const {
  std::vector<std::uint64_t> fingerprints;
  fingerprints.reserve(chain.size());
  for (const Key& key : chain) {
    fingerprints.push_back(fingerprint_of(namespace_number, StoredKey(key)));
  }
  std::vector<std::uint32_t> records(chain.size());
  std::size_t matched = 0;
  // The last block's key stands for all before it. While the tree is held, its record stays.
  tree_.longest_match(fingerprints, records, [&](std::span<const std::uint32_t> found) {
    matched = found.size();
    while (matched > 0 &&
           !records_.holds(found[matched - 1], StoredKey(chain[matched - 1]), namespace_number)) {
      --matched;
    }
  });
  return matched;
}

void Objects::touch(std::uint32_t namespace_number, std::span<const Key> keys) {
  const std::scoped_lock lock(space_);
  for (const Key& name : keys) {
    const StoredKey key(name);
    const std::optional<ObjectId> id =
        index_.find(fingerprint_of(namespace_number, key), matcher(namespace_number, key));
    if (id && states_[*id].known) tenants_.at(states_[*id].tenant).evictor->hit(*id);
  }
}

LeaseId Objects::pin(std::uint32_t namespace_number, std::span<const Key> keys,
                     std::chrono::nanoseconds duration, std::span<Status> statuses) {
  end_expired_leases();
  std::vector<ObjectId> held;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const StoredKey key(keys[i]);
    statuses[i] = Status::kNotFound;
    const auto lease = [&](ObjectId id) {
      if (!records_.holds(id, key, namespace_number)) return false;
      statuses[i] = states_.lease(id) ? Status::kOk : Status::kBusy;
      if (statuses[i] == Status::kOk) held.push_back(id);
      return true;
    };
    (void)index_.find(fingerprint_of(namespace_number, key), lease);
  }
  if (held.empty()) return 0;
  return leases_.add(std::move(held), deadline_after(duration));
}

Status Objects::unpin(LeaseId lease) {
  end_expired_leases();
  const std::optional<std::vector<ObjectId>> held = leases_.end(lease);
  if (!held) return Status::kNotFound;
  end_leases(*held);
  return Status::kOk;
}

void Objects::end_leases(std::span<const ObjectId> held) {
  for (const ObjectId id : held) {
    if (states_.end_lease(id)) free_retired(id);
  }
}

void Objects::end_expired_leases() { end_leases(leases_.end_expired(Leases::Clock::now())); }

ObjectStoreStats Objects::stats() const {
  ObjectStoreStats stats;
  const nkv_pool_header& header = pool_->header();
  stats.total_bytes = std::uint64_t{header.slabs} * header.slab_bytes;
  const ExtentAllocator::Usage usage = extents_.usage();
  stats.slab_bytes = usage.owned_grains * NKV_OBJECT_GRAIN_BYTES;
  stats.used_bytes = usage.used_grains * NKV_OBJECT_GRAIN_BYTES;
  stats.namespaces = namespaces_.size();
  stats.leases = leases_.size();
  stats.objects = counters_.objects;
  stats.object_bytes = counters_.object_bytes;
  stats.sets = counters_.sets;
  stats.set_bytes = counters_.set_bytes;
  stats.hits = counters_.hits;
  stats.get_bytes = counters_.get_bytes;
  stats.misses = counters_.misses;
  stats.evictions = counters_.evictions;
  stats.expirations = counters_.expirations;
  stats.corruptions = counters_.corruptions;
  stats.recovered = counters_.recovered;
  stats.torn = counters_.torn;
  stats.moved = counters_.moved;
  stats.quarantined = counters_.quarantined;
  stats.max_objects = records_.size();
  stats.max_namespaces = header.max_namespaces;
  return stats;
}

}  // namespace nearkv
