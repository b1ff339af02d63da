// Taking objects up again: records say what there is, all views are made anew.
#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "object/extent_list.hpp"
#include "object/objects.hpp"

namespace nearkv {
namespace {

// Starting a thread costs as much as some thousand records do.
constexpr std::size_t kRecordsOfAThread = 1 << 15;
constexpr std::size_t kMostThreads = 8;

/// Where work of this size is best done: beside the caller, or when the caller asks for it.
std::launch beside_if(std::size_t count) {
  return count >= kRecordsOfAThread ? std::launch::async : std::launch::deferred;
}

}  // namespace

/// A record that makes sense. What the views need of it is kept, so that it is read once.
struct Objects::Found {
  std::uint64_t generation = 0;
  std::uint64_t parent = 0;
  ObjectId id = kNoObject;
  std::uint32_t expires_s = 0;
  std::uint16_t extents = 0;
  std::uint8_t flags = 0;
  std::uint8_t state = NKV_OBJECT_STATE_FREE;
};

/// Consecutive records, as one thread has found them.
struct Objects::Scan {
  ObjectId begin = 0;
  ObjectId end = 0;
  std::vector<Found> found;
  std::vector<Extent> extents;  ///< Of all of them, one behind the other.
  std::vector<ObjectId> torn;
  std::vector<ObjectId> poisoned;
  std::vector<ObjectId> list_poisoned;  ///< Whose list of extents is.
};

bool Objects::is_sane(const nkv_object_record& record) const {
  const bool is_object = record.state == NKV_OBJECT_STATE_LIVE ||
                         record.state == NKV_OBJECT_STATE_POISONED ||
                         record.state == NKV_OBJECT_STATE_DOOMED;
  const std::uint64_t stored_bytes = record.bytes + trailer_bytes(record);
  return is_object && (record.flags & ~NKV_OBJECT_FLAG_ALL) == 0 && record.bytes != 0 &&
         record.bytes <= NKV_MAX_OBJECT_BYTES && record.parts <= NKV_MAX_OBJECT_PARTS &&
         record.key_bytes <= NKV_OBJECT_KEY_BYTES && record.parts != 1 &&
         ((record.flags & NKV_OBJECT_FLAG_PARTS) != 0) == (record.parts > 1) &&
         stored_bytes <= std::uint64_t{record.grains} * NKV_OBJECT_GRAIN_BYTES;
}

Status Objects::scan(Scan* scan) {
  nkv_object_record record{};
  std::vector<Extent> extents;
  std::uint32_t space = 0;  // Most records are of the same one as the record before.
  std::optional<std::uint16_t> tenant = namespaces_.tenant(space);
  ObjectId not_yet_durable = scan->begin;
  // Who was here before may have died between a record's first word and the fence behind it.
  const auto write_back_until = [&](ObjectId end) {
    return records_.write_back(std::exchange(not_yet_durable, end), end);
  };
  scan->found.reserve(scan->end - scan->begin);
  scan->extents.reserve(scan->end - scan->begin);
  for (ObjectId id = scan->begin; id < scan->end; ++id) {
    Status status = records_.read(id, &record);
    if (status == Status::kPoison) {
      // Poison lets itself be written back as little as read.
      if (write_back_until(id) != Status::kOk) return Status::kPoison;
      not_yet_durable = id + 1;
      scan->poisoned.push_back(id);
      continue;
    }
    if (status == Status::kNotFound) continue;
    if (record.namespace_number != space) {
      space = record.namespace_number;
      tenant = namespaces_.tenant(space);
    }
    if (status == Status::kOk) {
      const bool sane = is_sane(record) && tenant == record.tenant;
      status =
          sane ? read_extents(pool_->header(), payload_.get(), record, &extents) : Status::kCorrupt;
    }
    if (status == Status::kCorrupt) {
      scan->torn.push_back(id);
      continue;
    }
    if (status == Status::kPoison) {
      scan->list_poisoned.push_back(id);
      continue;
    }
    if (status != Status::kOk) return status;
    states_[id].set(fingerprint_of(record.namespace_number, StoredKey(record)), record);
    scan->extents.insert(scan->extents.end(), extents.begin(), extents.end());
    scan->found.push_back({record.generation, record.parent, id, record.expires_s,
                           static_cast<std::uint16_t>(extents.size()), record.flags,
                           static_cast<std::uint8_t>(record.state)});
  }
  if (write_back_until(scan->end) != Status::kOk) return Status::kPoison;
  persistence_->fence();
  return Status::kOk;
}

Status Objects::scan_all(std::vector<Scan>* scans) {
  const std::size_t threads =
      std::clamp<std::size_t>(std::min<std::size_t>(records_.size() / kRecordsOfAThread,
                                                    std::thread::hardware_concurrency()),
                              1, kMostThreads);
  scans->resize(threads);
  std::vector<std::future<Status>> others;
  for (std::size_t i = 0; i < threads; ++i) {
    Scan& mine = (*scans)[i];
    mine.begin = static_cast<ObjectId>(records_.size() * i / threads);
    mine.end = static_cast<ObjectId>(records_.size() * (i + 1) / threads);
    if (i == 0) continue;
    others.push_back(std::async(std::launch::async, [this, &mine] { return scan(&mine); }));
  }
  Status status = scan(&scans->front());
  for (std::future<Status>& other : others) {
    const Status its = other.get();
    if (status == Status::kOk) status = its;
  }
  return status;
}

bool Objects::quarantine_list(ObjectId id) {
  nkv_object_record record{};
  const bool here = records_.read(id, &record) == Status::kOk;
  const Extent list{record.extent_first[0], 1};
  if (!here || !extents_.adopt(std::span(&list, 1))) return false;
  record.flags = 0;
  record.parts = 0;
  record.extents = 1;
  record.grains = 1;
  record.bytes = NKV_OBJECT_GRAIN_BYTES;
  states_[id].set(fingerprint_of(record.namespace_number, StoredKey(record)), record);
  // Else the record is bad as well, and the grain is kept until the next open().
  if (records_.write(id, record) == Status::kOk) {
    persistence_->fence();
    (void)records_.publish(id, NKV_OBJECT_STATE_POISONED);
  }
  return true;
}

std::vector<Objects::Found> Objects::adopt(std::span<Scan> scans) {
  std::vector<bool> used(records_.size());
  std::vector<Found> objects;
  std::vector<std::pair<ObjectId, std::vector<Extent>>> doomed;
  for (Scan& scan : scans) {
    // The record's own memory is bad: it is never used again.
    for (const ObjectId id : scan.poisoned) used[id] = true;
    std::span<const Extent> left(scan.extents);
    objects.reserve(objects.size() + scan.found.size());
    for (const Found& found : scan.found) {
      const std::span<const Extent> extents = left.first(found.extents);
      left = left.subspan(found.extents);
      if (!extents_.adopt(extents)) {
        scan.torn.push_back(found.id);
        continue;
      }
      used[found.id] = true;
      generation_ = std::max(generation_.load(), found.generation);
      const ObjectState& state = states_[found.id];
      (void)namespaces_.hold(state.namespace_number);
      tenants_.at(state.tenant).used_bytes += std::uint64_t{state.grains} * NKV_OBJECT_GRAIN_BYTES;
      if (found.state == NKV_OBJECT_STATE_LIVE) {
        objects.push_back(found);
      } else if (found.state == NKV_OBJECT_STATE_DOOMED) {
        doomed.emplace_back(found.id, std::vector(extents.begin(), extents.end()));
      } else {
        StoreCounters::add(counters_.quarantined, 1);
      }
    }
    for (const ObjectId id : scan.list_poisoned) {
      if (!quarantine_list(id)) {
        scan.torn.push_back(id);
        continue;
      }
      used[id] = true;
      (void)namespaces_.hold(states_[id].namespace_number);
      tenants_.at(states_[id].tenant).used_bytes += NKV_OBJECT_GRAIN_BYTES;
      StoreCounters::add(counters_.quarantined, 1);
    }
    for (const ObjectId id : scan.torn) (void)records_.publish(id, NKV_OBJECT_STATE_FREE);
    StoreCounters::add(counters_.torn, scan.torn.size());
  }
  persistence_->fence();
  extents_.finish_adoption();
  records_.release_unused(used);
  for (const auto& [id, extents] : doomed) free_space(id, extents);
  return objects;
}

std::vector<ObjectId> Objects::index(std::vector<Found>* objects) {
  std::vector<FlatIndex::Entry> entries;
  entries.reserve(objects->size());
  for (const Found& object : *objects) {
    entries.push_back({states_[object.id].fingerprint, object.id});
  }
  const auto same_key = [this](ObjectId one, ObjectId other) {
    nkv_object_record record{};
    return records_.read(other, &record) == Status::kOk &&
           records_.holds(one, StoredKey(record), record.namespace_number);
  };
  std::vector<ObjectId> superseded = index_.load(entries, same_key);
  std::ranges::sort(superseded);
  std::erase_if(*objects, [&](const Found& object) {
    return std::ranges::binary_search(superseded, object.id);
  });
  return superseded;
}

void Objects::enlist_all(std::span<const Found> objects) {
  std::vector<PrefixTree::Block> blocks;
  for (const Found& object : objects) {
    if ((object.flags & NKV_OBJECT_FLAG_CHAINED) == 0) continue;
    PrefixTree::Block block{states_[object.id].fingerprint, std::nullopt, object.id};
    if (object.parent != 0) block.parent = object.parent;
    blocks.push_back(block);
    states_[object.id].chained = true;
  }
  std::future<std::vector<std::uint32_t>> refused =
      std::async(beside_if(blocks.size()), [&] { return tree_.load(blocks); });
  ObjectId before = kNoObject;
  for (const Found& object : objects) {
    ObjectState& state = states_[object.id];
    Entry entry{object.id, state.fingerprint, state.grains * NKV_OBJECT_GRAIN_BYTES};
    if (object.expires_s != 0) entry.expires_s = object.expires_s;
    if (object.parent != 0) {
      // Chains come block after block.
      const auto is_parent = [&](ObjectId id) {
        return states_[id].fingerprint == object.parent && states_[id].chained;
      };
      entry.parent = before != kNoObject && is_parent(before)
                         ? before
                         : index_.find(object.parent, is_parent).value_or(kNoObject);
    }
    before = object.id;
    tenants_.at(state.tenant).evictor->insert(entry);
    state.known = true;
    StoreCounters::add(counters_.object_bytes, state.bytes);
  }
  StoreCounters::add(counters_.objects, objects.size());
  // Refused: the key's prefix is another one than before. It is found by its key alone.
  for (const std::uint32_t block : refused.get()) states_[blocks[block].record].chained = false;
}

Status Objects::recover() {
  const std::scoped_lock lock(space_);
  SlabTable& slabs = pool_->slabs();
  for (std::size_t slab = 0; slab < slabs.size(); ++slab) {
    if (slabs.use(slab) == NKV_SLAB_OF_OBJECTS) {
      (void)extents_.adopt_slab(static_cast<std::uint32_t>(slab));
    }
  }
  std::vector<Scan> scans;
  if (const Status status = scan_all(&scans); status != Status::kOk) return status;
  std::vector<Found> objects = adopt(scans);
  // In the order in which they were published, so that policies see the oldest first; of two
  // records with one key the later is right.
  if (!std::ranges::is_sorted(objects, {}, &Found::generation)) {
    std::ranges::sort(objects, {}, &Found::generation);
  }
  const std::vector<ObjectId> superseded = index(&objects);
  enlist_all(objects);
  unpublish(superseded);
  counters_.recovered = counters_.objects.load();
  return Status::kOk;
}

}  // namespace nearkv
