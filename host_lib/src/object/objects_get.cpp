// Objects on their way out, and those that are told to go.
#include <algorithm>

#include "edge.hpp"
#include "object/extent_list.hpp"
#include "object/objects.hpp"
#include "object/part_range.hpp"

namespace nearkv {

std::optional<ObjectId> Objects::use(std::uint32_t namespace_number, const StoredKey& key) {
  return index_.find(fingerprint_of(namespace_number, key), [&](ObjectId id) {
    if (!records_.holds(id, key, namespace_number)) return false;
    states_.use(id);
    return true;
  });
}

bool Objects::is_indexed(ObjectId id) const {
  return index_.find(states_[id].fingerprint, [&](ObjectId found) { return found == id; })
      .has_value();
}

void Objects::end_use(ObjectId id) {
  if (states_.end_use(id)) free_retired(id);
}

void Objects::hit(ObjectId id) {
  const std::scoped_lock lock(space_);
  if (states_[id].known) tenants_.at(states_[id].tenant).evictor->hit(id);
}

Status Objects::load(ObjectId id, nkv_object_record* record, std::vector<Extent>* extents) const {
  Status status = records_.read(id, record);
  if (status == Status::kOk) {
    status = read_extents(pool_->header(), payload_.get(), *record, extents);
  }
  return status == Status::kNotFound ? Status::kCorrupt : status;
}

Status Objects::copy_out(ObjectId id, const ObjectItem& item, std::uint32_t* bytes) {
  nkv_object_record record{};
  std::vector<Extent> extents;
  Status status = load(id, &record, &extents);
  if (status != Status::kOk) return status;
  if (item.generation != 0 && item.generation != record.generation) return Status::kNotFound;

  const std::uint32_t parts = std::max<std::uint32_t>(record.parts, 1);
  const std::uint32_t count = item.part_count == 0 ? parts : item.part_count;
  if (std::uint32_t{item.first_part} + count > parts) return Status::kBadArgument;
  TargetCursor target(item.target);
  const PartRange wanted = part_range(record, item.first_part, count);
  *bytes = static_cast<std::uint32_t>(wanted.bytes);
  if (target.remaining_bytes() < wanted.bytes) return Status::kBadArgument;
  status = parts_.read(extents, record, item.first_part, count, &target);
  if (status != Status::kOk) *bytes = 0;
  return status;
}

void Objects::get(std::uint32_t namespace_number, bool quiet, std::span<const ObjectItem> items,
                  std::span<Status> statuses, std::span<std::uint32_t> object_bytes) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const StoredKey key(items[i]);
    std::optional<ObjectId> id = use(namespace_number, key);
    object_bytes[i] = 0;
    while (id) {
      statuses[i] = at_edge([&] { return copy_out(*id, items[i], &object_bytes[i]); });
      if (statuses[i] != Status::kCorrupt || is_indexed(*id)) break;
      // Moved, replaced or erased just then: the key's object is another, or none.
      end_use(*id);
      id = use(namespace_number, key);
    }
    if (!id) {
      statuses[i] = Status::kNotFound;
      if (!quiet) StoreCounters::add(counters_.misses, 1);
      continue;
    }
    const InUse in_use(this, *id);
    if (statuses[i] == Status::kOk && !quiet) {
      hit(*id);
      StoreCounters::add(counters_.hits, 1);
      StoreCounters::add(counters_.get_bytes, object_bytes[i]);
    } else if (is_damage(statuses[i])) {
      poison(*id, statuses[i]);
    }
  }
}

void Objects::erase(std::uint32_t namespace_number, std::span<const ObjectItem> items,
                    std::span<Status> statuses) {
  end_expired_leases();
  // Those that are coming in parts first: their locks come before space_. They have no generation.
  std::vector<bool> begun(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    begun[i] = items[i].generation == 0 && drop_partial(namespace_number, StoredKey(items[i]));
  }
  const std::scoped_lock lock(space_);
  std::vector<ObjectId> gone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const StoredKey key(items[i]);
    const std::optional<ObjectId> id =
        index_.find(fingerprint_of(namespace_number, key), matcher(namespace_number, key));
    nkv_object_record record{};
    const bool another =
        id && items[i].generation != 0 &&
        (records_.read(*id, &record) != Status::kOk || record.generation != items[i].generation);
    if (!id || another) {
      statuses[i] = begun[i] ? Status::kOk : Status::kNotFound;
    } else if (!forget(*id, StoreEvent::Kind::kErased, Held::kByLeases)) {
      statuses[i] = Status::kBusy;
    } else {
      gone.push_back(*id);
      statuses[i] = Status::kOk;
    }
  }
  unpublish(gone);
}

void Objects::poison(ObjectId id, Status why) {
  const std::scoped_lock lock(space_);
  if (!forget(id, StoreEvent::Kind::kDamaged, Held::kByNobody)) return;  // Somebody else was first.
  if (why == Status::kPoison) {
    // Its memory is not used again: the record stays to say so, unless it is what is poison.
    (void)records_.publish(id, NKV_OBJECT_STATE_POISONED);
    persistence_->fence();
    StoreCounters::add(counters_.quarantined, 1);
  } else {
    StoreCounters::add(counters_.corruptions, 1);
    unpublish(std::span(&id, 1));
  }
}

}  // namespace nearkv
