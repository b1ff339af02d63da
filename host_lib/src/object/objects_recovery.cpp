// Taking objects up again: records say what there is, all views are made anew.
#include <algorithm>
#include <utility>

#include "object/extent_list.hpp"
#include "object/objects.hpp"

namespace nearkv {

struct Objects::Found {
  std::uint64_t generation = 0;
  ObjectId id = kNoObject;
};

bool Objects::adopt(ObjectId id, const nkv_object_record& record) {
  std::vector<Extent> extents;
  const bool sane =
      (record.state == NKV_OBJECT_STATE_LIVE || record.state == NKV_OBJECT_STATE_POISONED ||
       record.state == NKV_OBJECT_STATE_DOOMED) &&
      (record.flags & ~NKV_OBJECT_FLAG_ALL) == 0 && record.bytes != 0 &&
      record.bytes <= NKV_MAX_OBJECT_BYTES && record.parts <= NKV_MAX_OBJECT_PARTS &&
      record.key_bytes <= NKV_OBJECT_KEY_BYTES && record.parts != 1 &&
      ((record.flags & NKV_OBJECT_FLAG_PARTS) != 0) == (record.parts > 1) &&
      namespaces_.tenant(record.namespace_number) == record.tenant;
  const std::uint64_t stored_bytes = record.bytes + trailer_bytes(record);
  if (!sane || stored_bytes > std::uint64_t{record.grains} * NKV_OBJECT_GRAIN_BYTES ||
      read_extents(pool_->header(), payload_.get(), record, &extents) != Status::kOk ||
      !extents_.adopt(extents)) {
    return false;
  }
  ObjectState& state = states_[id];
  state.fingerprint = fingerprint_of(record.namespace_number, StoredKey(record));
  state.grains = record.grains;
  state.bytes = record.bytes;
  state.tenant = record.tenant;
  state.wipe = (record.flags & NKV_OBJECT_FLAG_WIPE) != 0;
  tenants_.at(record.tenant).used_bytes += std::uint64_t{record.grains} * NKV_OBJECT_GRAIN_BYTES;
  return true;
}

Status Objects::recover() {
  const std::scoped_lock lock(space_);
  SlabTable& slabs = pool_->slabs();
  for (std::size_t slab = 0; slab < slabs.size(); ++slab) {
    if (slabs.use(slab) == NKV_SLAB_OF_OBJECTS) {
      (void)extents_.adopt_slab(static_cast<std::uint32_t>(slab));
    }
  }
  std::vector<bool> used(records_.size());
  std::vector<Found> found;
  std::vector<ObjectId> doomed;
  nkv_object_record record{};
  for (ObjectId id = 0; id < records_.size(); ++id) {
    const Status status = records_.read(id, &record);
    if (status == Status::kNotFound) continue;
    if (status == Status::kPoison) {
      used[id] = true;  // The record's own memory is bad: it is never used again.
      continue;
    }
    if (status != Status::kOk || !adopt(id, record)) {
      records_.publish(id, NKV_OBJECT_STATE_FREE);
      StoreCounters::add(counters_.torn, 1);
      continue;
    }
    used[id] = true;
    generation_ = std::max(generation_.load(), record.generation);
    if (record.state == NKV_OBJECT_STATE_LIVE) found.push_back({record.generation, id});
    if (record.state == NKV_OBJECT_STATE_DOOMED) doomed.push_back(id);
    if (record.state == NKV_OBJECT_STATE_POISONED) StoreCounters::add(counters_.quarantined, 1);
  }
  extents_.finish_adoption();
  records_.release_unused(used);

  for (const ObjectId id : doomed) {
    std::vector<Extent> extents;
    if (records_.read(id, &record) == Status::kOk &&
        read_extents(pool_->header(), payload_.get(), record, &extents) == Status::kOk) {
      free_space(id, extents);
    }
  }

  // In the order in which they were published, so that policies see the oldest first; of two
  // records with one key the later is right.
  std::ranges::sort(found, {}, &Found::generation);
  std::vector<ObjectId> superseded;
  for (const Found& object : found) {
    if (records_.read(object.id, &record) != Status::kOk) continue;
    const StoredKey key(record);
    const auto same_key = matcher(record.namespace_number, key);
    const std::uint64_t fingerprint = states_[object.id].fingerprint;
    if (const auto older = index_.insert(fingerprint, object.id, same_key)) {
      forget(*older, StoreEvent::Kind::kErased);
      superseded.push_back(*older);
      (void)index_.insert(fingerprint, object.id, same_key);
    }
    enlist(object.id, record);
  }
  unpublish(superseded);
  counters_.recovered = counters_.objects.load();
  return Status::kOk;
}

}  // namespace nearkv
