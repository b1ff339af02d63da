// Objects on their way in.
#include <algorithm>
#include <limits>
#include <thread>

#include "deadline.hpp"
#include "edge.hpp"
#include "object/extent_list.hpp"
#include "object/objects.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

// A group shares two fences, and holds room that others cannot evict meanwhile.
constexpr std::size_t kGroupObjects = 32;
constexpr std::uint64_t kGroupBytes = 16 << 20;

bool is_full(Status status) { return status == Status::kPoolFull || status == Status::kQuota; }

/// Sleeps a little; false if it is late.
bool wait_until(std::chrono::steady_clock::time_point deadline) {
  if (std::chrono::steady_clock::now() >= deadline) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return true;
}

}  // namespace

Status Objects::begin(const SetOptions& options, std::uint64_t bytes, Incoming* incoming) {
  if (bytes > NKV_MAX_OBJECT_BYTES) return Status::kObjectTooLarge;
  if (bytes == 0 || options.parts > NKV_MAX_OBJECT_PARTS || options.parts > bytes) {
    return Status::kBadArgument;
  }
  nkv_object_record& record = incoming->record;
  record.bytes = static_cast<std::uint32_t>(bytes);
  record.namespace_number = options.namespace_number;
  std::ranges::copy(incoming->key.bytes, record.key);
  record.key_bytes = incoming->key.length;
  record.created_s = static_cast<std::uint32_t>(now_s());
  record.expires_s = options.age.count() > 0
                         ? static_cast<std::uint32_t>(std::min<std::int64_t>(
                               options.age.count(),
                               std::numeric_limits<std::uint32_t>::max() - record.created_s)) +
                               record.created_s
                         : 0;
  if (options.parts > 1) {
    record.flags |= NKV_OBJECT_FLAG_PARTS;
    record.parts = options.parts;
  }
  if (parts_.seals_new()) record.flags |= NKV_OBJECT_FLAG_SEALED;
  record.grains = static_cast<std::uint32_t>(
      round_up(bytes + trailer_bytes(record), NKV_OBJECT_GRAIN_BYTES) / NKV_OBJECT_GRAIN_BYTES);
  const std::optional<std::uint16_t> tenant = namespaces_.hold(options.namespace_number);
  if (!tenant) return Status::kNotFound;  // Closed and gone since the job came.
  record.tenant = *tenant;
  const Status status = reserve(options.evict, incoming);
  if (status != Status::kOk) namespaces_.drop(options.namespace_number);
  return status;
}

Status Objects::begin_patiently(const SetOptions& options, std::uint64_t bytes,
                                Incoming* incoming) {
  const auto deadline = deadline_after(patience_);
  Status status = Status::kOk;
  do {
    status = begin(options, bytes, incoming);
  } while (is_full(status) && wait_until(deadline));
  return status;
}

Status Objects::copy_in(const ObjectItem& item, Incoming* incoming) {
  nkv_object_record& record = incoming->record;
  SourceCursor source(item.source);
  const Status status = parts_.write(incoming->extents, &source, &record);
  if (status != Status::kOk) return status;
  return write_extents(payload_.get(), incoming->extents, incoming->has_list, &record);
}

Objects::Link Objects::link_of(const SetOptions& options) const {
  if (!options.chain || options.parent.empty()) return {};
  const auto parent = fingerprint_of(options.namespace_number, StoredKey(options.parent));
  return {parent, parent};
}

void Objects::put(const Link& link, Incoming* incoming) {
  incoming->record.flags |= NKV_OBJECT_FLAG_CHAINED;
  incoming->record.parent = link.parent;
  incoming->ancestor = link.ancestor;
}

void Objects::set(const SetOptions& options, std::span<const ObjectItem> items,
                  std::span<Status> statuses) {
  std::vector<Incoming> group;
  std::uint64_t group_bytes = 0;
  Link link = link_of(options);
  const auto commit_group = [&] {
    commit(options.overwrite, group, statuses);
    link.ancestor = group.back().fingerprint;
    group.clear();
    group_bytes = 0;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    Incoming incoming{StoredKey(items[i])};
    incoming.item = i;
    incoming.fingerprint = fingerprint_of(options.namespace_number, incoming.key);
    if (options.chain) {
      put(link, &incoming);
      link.parent = incoming.fingerprint;
    }
    if (!options.overwrite) {
      if (const auto found = use(options.namespace_number, incoming.key)) {
        const InUse in_use(this, *found);
        hit(*found);
        link.ancestor = incoming.fingerprint;
        statuses[i] = Status::kOk;
        continue;
      }
    }
    const std::uint64_t bytes = SourceCursor(items[i].source).remaining_bytes();
    statuses[i] = items[i].key.empty() ? Status::kBadArgument : begin(options, bytes, &incoming);
    // What follows one that found no room need not wait for any.
    if (is_full(statuses[i]) && !(options.chain && i > 0 && is_full(statuses[i - 1]))) {
      // What this job has stored so far may have to make room for what comes, like all else.
      if (!group.empty()) commit_group();
      if (options.chain) incoming.ancestor = link.ancestor;
      statuses[i] = begin_patiently(options, bytes, &incoming);
    }
    if (statuses[i] != Status::kOk) continue;
    statuses[i] = at_edge([&] { return copy_in(items[i], &incoming); });
    if (statuses[i] != Status::kOk) {
      abandon(incoming, statuses[i]);
      continue;
    }
    group_bytes += incoming.record.bytes;
    group.push_back(std::move(incoming));
    if (group.size() == kGroupObjects || group_bytes >= kGroupBytes) commit_group();
  }
  if (!group.empty()) commit_group();
}

void Objects::commit(bool overwrite, std::span<Incoming> group, std::span<Status> statuses) {
  for (Incoming& incoming : group) {
    incoming.record.generation = generation_.fetch_add(1) + 1;
    Status& status = statuses[incoming.item];
    status = records_.write(incoming.id, incoming.record);
    if (status != Status::kOk) abandon(incoming, Status::kCancelled);
  }
  persistence_->fence();
  for (const Incoming& incoming : group) {
    Status& status = statuses[incoming.item];
    if (status != Status::kOk) continue;
    status = records_.publish(incoming.id, NKV_OBJECT_STATE_LIVE);
    if (status != Status::kOk) abandon(incoming, status);
  }
  persistence_->fence();

  const std::scoped_lock lock(space_);
  std::vector<ObjectId> superseded;
  for (const Incoming& incoming : group) {
    const nkv_object_record& record = incoming.record;
    if (statuses[incoming.item] != Status::kOk) continue;
    StoreCounters::add(counters_.sets, 1);
    StoreCounters::add(counters_.set_bytes, record.bytes);
    const auto same_key = matcher(record.namespace_number, incoming.key);
    if (const auto other = index_.insert(incoming.fingerprint, incoming.id, same_key)) {
      // Somebody else has stored the key meanwhile, or it is to be replaced.
      if (!overwrite || !forget(*other, StoreEvent::Kind::kErased, Held::kByLeases)) {
        if (overwrite) statuses[incoming.item] = Status::kBusy;
        superseded.push_back(incoming.id);
        continue;
      }
      superseded.push_back(*other);
      (void)index_.insert(incoming.fingerprint, incoming.id, same_key);
    }
    enlist(incoming.id, record);
    tell(StoreEvent::Kind::kStored, incoming.id);
  }
  unpublish(superseded);
}

void Objects::abandon(const Incoming& incoming, Status why) {
  const std::scoped_lock lock(space_);
  if (why == Status::kPoison && quarantine(incoming)) return;
  // Bytes that are still on their way must not meet another object, and no object memory that is
  // bad: the room is lost until the pool is opened again.
  const bool lost = why == Status::kTimeout || why == Status::kPoison;
  free_space(incoming.id, lost ? std::span<const Extent>() : incoming.extents);
}

bool Objects::quarantine(const Incoming& incoming) {
  nkv_object_record record = incoming.record;
  // Its list may be what cannot be written.
  Status status = write_extents(payload_.get(), incoming.extents, incoming.has_list, &record);
  if (status == Status::kOk) status = records_.write(incoming.id, record);
  if (status != Status::kOk) return false;
  persistence_->fence();
  status = records_.publish(incoming.id, NKV_OBJECT_STATE_POISONED);
  persistence_->fence();
  if (status == Status::kOk) StoreCounters::add(counters_.quarantined, 1);
  return status == Status::kOk;
}

}  // namespace nearkv
