#include "share/sharing_host.hpp"

#include <new>

#include "page/checksum.hpp"

namespace nearkv {

SharingHost::SharingHost(const ShareContext& context, const LogName& name)
    : context_(context),
      log_(context_.memory, context_.region, name),
      leases_(&context_),
      space_(&context_),
      mailboxes_(&context_),
      directory_(&context_, &mailboxes_, this),
      borrow_(&context_, &space_, &mailboxes_) {}

Status SharingHost::join(SharedMemory& memory, Membership& membership, std::uint16_t self,
                         std::unique_ptr<SharingHost>* host) {
  ShareContext context{memory, membership, {}, self};
  Status status = Region::open(memory, &context.region);
  if (status != Status::kOk) return status;
  if (self >= context.region.hosts()) return Status::kBadArgument;
  status = membership.join(&context.view);
  if (status != Status::kOk) return status;
  context.epoch = context.view.hosts[self].epoch;
  const std::uint64_t joined_revision = context.view.revision;

  // Whatever past incarnations on this machine have stored reaches memory now, never later.
  memory.flush(0, context.region.total_bytes());
  memory.fence();
  status = membership.declare_quiet(context.epoch - 1, &context.view);
  if (status != Status::kOk) return status;

  const LogName name{self, context.epoch, context.view.hosts[self].area};
  host->reset(new (std::nothrow) SharingHost(context, name));
  if (*host == nullptr) return Status::kOutOfMemory;
  (*host)->joined_revision_ = joined_revision;
  (*host)->leases_.reset();
  (*host)->take_view(context.view);
  // Both copies of the line.
  status = (*host)->commit();
  return status == Status::kOk ? (*host)->commit() : status;
}

Status SharingHost::fenced() {
  is_fenced_ = true;
  is_ready_ = false;
  return Status::kFenced;
}

Status SharingHost::check() const {
  if (is_fenced_) return Status::kFenced;
  return is_ready_ ? Status::kOk : Status::kNotYet;
}

// --- The log ------------------------------------------------------------------------------------

Status SharingHost::commit() {
  context_.memory.fence();
  if (!context_.membership.confirm()) return fenced();
  log_.publish(acted_revision_, space_.free_extents());
  // What the caller now says elsewhere, others may act on at once.
  context_.memory.fence();
  return Status::kOk;
}

bool SharingHost::is_needed(const nkv_share_entry& entry) const {
  if (entry.kind == NKV_SHARE_ENTRY_KIND_TRANSFER) return space_.is_current(entry);
  if (entry.kind != NKV_SHARE_ENTRY_KIND_PUBLISH) return false;
  const nkv_share_entry* const object = own_.find(id_of(entry));
  return object != nullptr && object->number == entry.number;
}

Status SharingHost::make_room() {
  for (std::uint32_t i = 0; i < context_.region.log_entries() && log_.is_nearly_full(); ++i) {
    std::optional<nkv_share_entry> entry = log_.oldest();
    if (entry && is_needed(*entry)) {
      const Status status = log_.write(&*entry, acknowledged_);
      if (status != Status::kOk) return status;
      apply(*entry, log_.name(), &own_);
    }
    log_.drop_oldest();
  }
  return Status::kOk;
}

Status SharingHost::append(nkv_share_entry entry, ObjectId* id) {
  Status status = Status::kNotYet;
  while (status == Status::kNotYet) {
    status = make_room();
    if (status == Status::kOk) status = log_.write(&entry, acknowledged_);
    if (status != Status::kNotYet || log_.has_settled()) break;
    // A tail counts once it has been published and confirmed, which takes two publications.
    status = commit();
    if (status == Status::kOk) status = Status::kNotYet;
  }
  if (status != Status::kOk) return status;
  apply(entry, log_.name(), &own_);
  if (id != nullptr) *id = id_of(entry);
  return Status::kOk;
}

void SharingHost::apply(const nkv_share_entry& entry, const LogName& source, ObjectIndex* index) {
  if (entry.kind == NKV_SHARE_ENTRY_KIND_TRANSFER) {
    space_.apply(entry, source);
  } else {
    index->apply(entry);
  }
}

// --- Objects ------------------------------------------------------------------------------------

void SharingHost::write_payload(const Place& place, std::span<const std::byte> bytes) {
  const std::uint64_t at = context_.region.extent_at(place.first);
  context_.memory.copy_in(at, bytes);
  context_.memory.flush(at, bytes.size());
  context_.memory.fence();
}

Status SharingHost::publish(const ObjectKey& key, std::span<const std::byte> bytes, ObjectId* id) {
  return publish_version_of(key, bytes, 0, id);
}

Status SharingHost::publish_mutable(const ObjectKey& key, std::span<const std::byte> bytes,
                                    ObjectId* id) {
  return publish_version_of(key, bytes, 1, id);
}

Status SharingHost::publish_version_of(const ObjectKey& key, std::span<const std::byte> bytes,
                                       std::uint32_t version, ObjectId* id) {
  Status status = check();
  if (status != Status::kOk) return status;
  nkv_share_entry entry{};
  entry.length = static_cast<std::uint32_t>(bytes.size());
  if (entry.length != bytes.size()) return Status::kBadArgument;
  const std::optional<Place> place = space_.allocate(context_.region.extents_for(entry.length));
  if (!place) return Status::kPoolFull;
  write_payload(*place, bytes);
  entry.kind = NKV_SHARE_ENTRY_KIND_PUBLISH;
  entry.key_low = key.low;
  entry.key_high = key.high;
  entry.first_extent = place->first;
  entry.payload_crc = crc32c(bytes);
  entry.version = version;
  status = append(entry, id);
  if (status != Status::kOk) {
    space_.release(*place);
    return status;
  }
  return commit();
}

Status SharingHost::remove(const ObjectId& id) {
  Status status = check();
  if (status != Status::kOk) return status;
  const nkv_share_entry* const object = own_.find(id);
  if (object == nullptr) return Status::kNotFound;
  if (context_.view.claimant == context_.self || !directory_.may_remove(id)) return Status::kNotYet;
  nkv_share_entry entry = *object;
  entry.kind = NKV_SHARE_ENTRY_KIND_REMOVE;
  const Place place{entry.first_extent, context_.region.extents_for(entry.length)};
  status = append(entry, nullptr);
  if (status != Status::kOk) return status;
  space_.retire(place, {log_.last(), adopted_revision_, false});
  return commit();
}

Status SharingHost::pin(const ObjectKey& key, Pin* pin) { return pin_any(key, pin); }

Status SharingHost::pin(const ObjectId& id, Pin* pin) { return pin_any(id, pin); }

template <typename Name>
Status SharingHost::pin_any(const Name& name, Pin* pin) {
  const Status status = check();
  if (status != Status::kOk) return status;
  const nkv_share_entry* object = own_.find(name);
  for (auto peer = peers_.begin(); object == nullptr && peer != peers_.end(); ++peer) {
    object = peer->second.index.find(name);
  }
  if (object == nullptr) return Status::kNotFound;
  *pin = leases_.pin(*object);
  return Status::kOk;
}

Status SharingHost::copy_verified(const Place& place, std::uint32_t payload_crc,
                                  std::span<std::byte> bytes) {
  const std::uint64_t at = context_.region.extent_at(place.first);
  context_.memory.invalidate(at, bytes.size());
  context_.memory.fence();
  context_.memory.copy_out(at, bytes);
  // Others reuse what a dead host was reading; the checksum would only most likely tell.
  if (!context_.membership.confirm()) return fenced();
  return crc32c(bytes) == payload_crc ? Status::kOk : Status::kCorrupt;
}

Status SharingHost::read(const Pin& pin, std::span<std::byte> bytes) {
  if (is_fenced_) return Status::kFenced;
  if (bytes.size() != pin.object.length) return Status::kBadArgument;
  return copy_verified({pin.object.first_extent, 0}, pin.object.payload_crc, bytes);
}

// --- Mutable objects ----------------------------------------------------------------------------

Status SharingHost::acquire_read(const ObjectId& id) {
  const Status status = check();
  return status == Status::kOk ? directory_.acquire_read(id) : status;
}

Status SharingHost::acquire_write(const ObjectId& id, std::uint32_t bytes) {
  const Status status = check();
  return status == Status::kOk ? directory_.acquire_write(id, bytes) : status;
}

Status SharingHost::read_current(const ObjectId& id, std::vector<std::byte>* bytes,
                                 std::uint32_t* version) {
  if (is_fenced_) return Status::kFenced;
  const nkv_share_message* const grant = directory_.readable(id);
  if (grant == nullptr) return Status::kStalePage;
  bytes->resize(grant->length);
  *version = grant->version;
  return copy_verified({grant->first_extent, 0}, grant->payload_crc, *bytes);
}

Status SharingHost::write_next(const ObjectId& id, std::span<const std::byte> bytes,
                               std::uint32_t* version) {
  if (is_fenced_) return Status::kFenced;
  const nkv_share_message* const grant = directory_.writable(id);
  if (grant == nullptr) return Status::kStalePage;
  if (bytes.size() != grant->length) return Status::kBadArgument;
  write_payload({grant->first_extent, 0}, bytes);
  *version = grant->version;
  directory_.written(id, crc32c(bytes));
  return Status::kOk;
}

const nkv_share_entry* SharingHost::owned(const ObjectId& id) const { return own_.find(id); }

std::optional<std::uint16_t> SharingHost::home_of(const ObjectId& id) const {
  if (own_.find(id) != nullptr) return context_.self;
  for (const auto& [name, peer] : peers_) {
    if (context_.view.is_live(name.host, name.epoch) && peer.index.find(id) != nullptr) {
      return name.host;
    }
  }
  return std::nullopt;
}

std::optional<Place> SharingHost::allocate(std::uint32_t extents) {
  return space_.allocate(extents);
}

Status SharingHost::publish_version(const nkv_share_entry& version) {
  const nkv_share_entry before = *own_.find(id_of(version));
  Status status = append(version, nullptr);
  if (status != Status::kOk) return status;
  space_.retire({before.first_extent, context_.region.extents_for(before.length)},
                {log_.last(), adopted_revision_, false});
  return commit();
}

void SharingHost::abandon(const Place& place) { space_.retire(place, {0, 0, true}); }

bool SharingHost::may_grant_writes() const { return all_act_on(adopted_revision_); }

}  // namespace nearkv
