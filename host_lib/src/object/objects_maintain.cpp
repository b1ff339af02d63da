// Looking at objects, verifying them, and moving them together.
#include <algorithm>
#include <set>

#include "edge.hpp"
#include "object/extent_list.hpp"
#include "object/objects.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kSlabsAtOnce = 16;  // One scan over all records finds the objects of so many.
constexpr std::size_t kRecordsAtOnce = 256;  // Looked at while others wait for room.

// Where rounding alone loses all that is bearable, one of so many parts of that may be lost beside.
constexpr std::uint64_t kWorthMoving = 4;

}  // namespace

std::optional<ObjectInfo> Objects::describe(ObjectId id) const {
  nkv_object_record record{};
  if (records_.read(id, &record) != Status::kOk || record.state != NKV_OBJECT_STATE_LIVE) {
    return std::nullopt;
  }
  ObjectInfo info;
  info.number = id;
  info.namespace_number = record.namespace_number;
  info.tenant = record.tenant;
  info.key_is_digest = record.key_bytes == 0;
  const auto key = std::as_bytes(std::span(record.key));
  const std::size_t key_bytes = info.key_is_digest ? key.size() : record.key_bytes;
  info.key.assign(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(key_bytes));
  info.leased = states_.leased(id);
  info.bytes = record.bytes;
  info.parts = record.parts;
  info.extents = record.extents;
  info.generation = record.generation;
  info.created_s = record.created_s;
  info.expires_s = record.expires_s;
  return info;
}

Status Objects::describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) {
  const std::optional<ObjectId> id = use(namespace_number, StoredKey(key));
  if (!id) return Status::kNotFound;
  const InUse in_use(this, *id);
  std::optional<ObjectInfo> found = describe(*id);
  if (!found) return Status::kNotFound;
  *info = std::move(*found);
  return Status::kOk;
}

std::vector<ObjectInfo> Objects::list(std::uint32_t first, std::size_t most) {
  std::vector<ObjectInfo> infos;
  for (std::size_t record = first; record < records_.size() && infos.size() < most; ++record) {
    const auto id = static_cast<ObjectId>(record);
    if (!use_known(id)) continue;
    const InUse in_use(this, id);
    std::optional<ObjectInfo> info = describe(id);
    if (info) infos.push_back(std::move(*info));
  }
  return infos;
}

std::vector<ObjectInfo> Objects::coldest(std::uint64_t bytes) {
  end_expired_leases();
  const std::scoped_lock lock(space_);
  std::vector<ObjectInfo> infos;
  std::set<ObjectId> seen;
  std::uint64_t found_bytes = 0;
  const std::uint64_t clock_s = now_s();
  const auto evictable = [&](ObjectId id) { return !states_.in_use(id) && !seen.contains(id); };
  const auto look = [&](std::uint16_t tenant, bool expired) {
    Evictor& evictor = *tenants_.at(tenant).evictor;
    while (found_bytes < bytes) {
      const std::optional<ObjectId> id =
          expired ? evictor.expired(clock_s, evictable) : evictor.victim(clock_s, evictable);
      if (!id) break;
      seen.insert(*id);
      found_bytes += std::uint64_t{states_[*id].grains} * NKV_OBJECT_GRAIN_BYTES;
      if (std::optional<ObjectInfo> info = describe(*id)) infos.push_back(std::move(*info));
    }
  };
  const std::vector<std::uint16_t> turns = tenants_.in_turn();
  for (const bool expired : {true, false}) {
    for (const std::uint16_t tenant : turns) look(tenant, expired);
  }
  return infos;
}

std::vector<TenantUsage> Objects::tenants() const {
  const std::scoped_lock lock(space_);
  return tenants_.usages();
}

bool Objects::use_known(ObjectId id) {
  const std::scoped_lock lock(space_);
  if (!states_[id].known) return false;
  states_.use(id);
  return true;
}

Status Objects::verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) {
  const std::size_t end = std::min<std::size_t>(std::size_t{first} + most, records_.size());
  for (std::size_t record = first; record < end; ++record) {
    const auto id = static_cast<ObjectId>(record);
    if (!use_known(id)) continue;
    const InUse in_use(this, id);
    nkv_object_record found{};
    const Status status = at_edge([&] {
      std::vector<Extent> extents;
      const Status loaded = load(id, &found, &extents);
      return loaded == Status::kOk ? parts_.verify(extents, found) : loaded;
    });
    if (status == Status::kOk) {
      progress->bytes += found.bytes;
    } else if (!is_damage(status)) {
      progress->next = id;
      return status;
    } else if (is_indexed(id)) {
      poison(id, status);
      ++progress->damaged;
    }
    ++progress->objects;
  }
  progress->next = end == records_.size() ? 0 : static_cast<std::uint32_t>(end);
  return Status::kOk;
}

Status Objects::read_payload(std::span<const Extent> from, std::span<std::byte> payload) {
  TargetCursor target(std::span(&payload, 1));
  SegmentSink sink(&target);
  std::uint32_t ignored = 0;  // Its own checksum goes with it, and is verified when it is read.
  return payload_->read(from, 0, payload.size(), &sink, &ignored);
}

Status Objects::write_payload(std::span<const std::byte> payload, Incoming* incoming) {
  SourceCursor cursor(std::span(&payload, 1));
  SegmentSource source(&cursor);
  std::uint32_t ignored = 0;
  const PayloadPiece piece{payload.size(), &source, &ignored};
  const Status status = payload_->write(incoming->extents, 0, std::span(&piece, 1));
  if (status != Status::kOk) return status;
  return write_extents(payload_.get(), incoming->extents, incoming->has_list, &incoming->record);
}

bool Objects::move(ObjectId id, const nkv_object_record& record, std::span<const Extent> from) {
  Incoming incoming{StoredKey(Key())};
  incoming.record = record;
  incoming.fingerprint = states_[id].fingerprint;
  std::vector<std::byte> payload(record.bytes + trailer_bytes(record));
  if (const Status status = read_payload(from, payload); status != Status::kOk) {
    if (status == Status::kPoison) poison(id, status);
    return false;
  }
  {
    const std::scoped_lock lock(space_);
    const std::optional<ObjectId> place = records_.take();
    if (!place) return false;
    if (!allocate(&incoming, ExtentAllocator::Reach::kOwnSlabs)) {
      records_.release(*place);
      return false;
    }
    incoming.id = *place;
    occupy(incoming);
    (void)namespaces_.hold(record.namespace_number);  // The object that moves holds it too.
  }
  Status status = at_edge([&] { return write_payload(payload, &incoming); });
  if (status != Status::kOk) {
    abandon(incoming, status);
    return false;
  }
  incoming.record.generation = generation_.fetch_add(1) + 1;
  status = records_.write(incoming.id, incoming.record);
  if (status != Status::kOk) {
    abandon(incoming, Status::kCancelled);
    return false;
  }
  persistence_->fence();
  status = records_.publish(incoming.id, NKV_OBJECT_STATE_LIVE);
  if (status != Status::kOk) {
    abandon(incoming, status);
    return false;
  }
  persistence_->fence();

  const std::scoped_lock lock(space_);
  const auto is_old = [&](ObjectId found) { return found == id && !states_.leased(id); };
  if (!states_[id].known || !index_.replace(incoming.fingerprint, incoming.id, is_old)) {
    unpublish(std::span(&incoming.id, 1));
    return false;
  }
  rename(id, incoming.id);
  unpublish(std::span(&id, 1));
  StoreCounters::add(counters_.moved, 1);
  return true;
}

void Objects::rename(ObjectId from, ObjectId to) {
  ObjectState& before = states_[from];
  ObjectState& after = states_[to];
  std::vector<std::uint32_t> children;
  if (before.chained) {
    children = tree_.children_of(before.fingerprint);
    after.chained = tree_.replace(before.fingerprint, from, to);
  }
  tenants_.at(before.tenant).evictor->rename(from, to, children);
  before.known = before.chained = false;
  after.known = true;
}

std::vector<std::uint32_t> Objects::close_sparse_slabs(std::uint64_t most_bytes) {
  const std::scoped_lock lock(space_);
  std::vector<std::uint32_t> slabs;
  const std::size_t most =
      std::clamp<std::size_t>(most_bytes / pool_->slabs().slab_bytes(), 1, kSlabsAtOnce);
  slabs.reserve(most);
  std::uint64_t pending_grains = 0;
  while (slabs.size() < most) {
    const std::optional<std::uint32_t> slab = extents_.sparsest_slab(pending_grains);
    if (!slab) break;
    pending_grains += extents_.used_grains(*slab);
    if (!extents_.close_slab(*slab)) break;
    slabs.push_back(*slab);
  }
  return slabs;
}

bool Objects::any_in(std::span<const std::uint32_t> slabs, std::span<const Extent> extents) const {
  return std::ranges::any_of(extents, [&](const Extent& extent) {
    // Neighbouring slabs may hold one extent together.
    const std::uint32_t first = extents_.slab_of(extent.first_grain);
    const std::uint32_t last = extents_.slab_of(extent.first_grain + extent.grains - 1);
    return std::ranges::any_of(slabs,
                               [&](std::uint32_t slab) { return slab >= first && slab <= last; });
  });
}

void Objects::use_movable(ObjectId first, std::span<const std::uint32_t> slabs,
                          std::vector<ObjectId>* movable) {
  movable->clear();
  nkv_object_record record{};
  const std::size_t end = std::min(first + kRecordsAtOnce, records_.size());
  const std::scoped_lock lock(space_);
  for (ObjectId id = first; id < end; ++id) {
    if (!states_[id].known || states_.in_use(id) || records_.read(id, &record) != Status::kOk) {
      continue;
    }
    bool may_be_in = record.extents > NKV_RECORD_EXTENTS;  // It takes more reading to know.
    for (std::size_t i = 0; i < record.extents && !may_be_in; ++i) {
      const Extent extent{record.extent_first[i], record.extent_grains[i]};
      may_be_in = any_in(slabs, std::span(&extent, 1));
    }
    if (!may_be_in) continue;
    movable->push_back(id);
    states_.use(id);
  }
}

std::size_t Objects::defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes,
                                const std::stop_token& stop) {
  *moved_bytes = 0;
  std::vector<ObjectId> movable;
  movable.reserve(kRecordsAtOnce);
  const std::vector<std::uint32_t> slabs = close_sparse_slabs(most_bytes);
  const auto move_if_in = [&](ObjectId id) {
    nkv_object_record record{};
    std::vector<Extent> extents;
    const Status status = load(id, &record, &extents);
    if (status == Status::kOk && any_in(slabs, extents) && move(id, record, extents)) {
      *moved_bytes += std::uint64_t{record.grains} * NKV_OBJECT_GRAIN_BYTES;
    }
    return status;
  };
  for (ObjectId first = 0; first < records_.size() && !slabs.empty() && !stop.stop_requested();
       first += kRecordsAtOnce) {
    use_movable(first, slabs, &movable);
    for (const ObjectId id : movable) {
      const InUse in_use(this, id);
      // What cannot be moved, for want of memory too, stays where it is.
      if (!stop.stop_requested()) (void)at_edge([&] { return move_if_in(id); });
    }
  }
  // Slabs that held something that could not move are used again.
  return static_cast<std::size_t>(std::ranges::count_if(
      slabs, [&](std::uint32_t slab) { return !extents_.reopen_slab(slab); }));
}

std::uint64_t Objects::sparse_bytes(double share) const {
  const ExtentAllocator::Usage usage = extents_.usage();
  const std::uint64_t slab_bytes = usage.owned_grains * NKV_OBJECT_GRAIN_BYTES;
  const std::uint64_t spare_bytes =
      (usage.owned_grains - usage.used_grains) * NKV_OBJECT_GRAIN_BYTES;
  const std::uint64_t object_bytes = std::min<std::uint64_t>(counters_.object_bytes, slab_bytes);
  const auto bearable_bytes = static_cast<std::uint64_t>(share * static_cast<double>(slab_bytes));
  const std::uint64_t lost_bytes = slab_bytes - object_bytes;
  // Rounding loses room too, which moving does not win back.
  const bool worth_moving =
      spare_bytes >= pool_->slabs().slab_bytes() && spare_bytes > bearable_bytes / kWorthMoving;
  return worth_moving && lost_bytes > bearable_bytes ? lost_bytes - bearable_bytes : 0;
}

}  // namespace nearkv
