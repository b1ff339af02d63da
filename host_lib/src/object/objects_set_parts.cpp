// Objects that come in parts: nobody sees them before they are whole.
#include <algorithm>

#include "edge.hpp"
#include "object/extent_list.hpp"
#include "object/objects.hpp"
#include "object/part_range.hpp"

namespace nearkv {
namespace {

// What nobody has added to for so long has been given up by its writer.
constexpr std::chrono::minutes kPartialPatience{5};

}  // namespace

/// An object of which parts have come. Its room is taken; no record says anything of it yet.
struct Objects::Partial {
  explicit Partial(const StoredKey& key) : incoming(key) {}

  enum class Part : std::uint8_t { kAbsent, kOnItsWay, kHere };

  std::mutex mutex;
  Incoming incoming;
  Status status = Status::kBusy;  ///< Of its beginning; kBusy: not begun.
  std::vector<Part> parts;
  std::vector<std::byte> trailer;
  bool dropped = false;         ///< Erased, given up or whole: nothing may be added.
  Status broken = Status::kOk;  ///< How a part ended after which its room cannot be used.
  std::chrono::steady_clock::time_point last_part = std::chrono::steady_clock::now();
};

Objects::PartialName Objects::name_of(std::uint32_t namespace_number, const StoredKey& key) {
  PartialName name{namespace_number, {}};
  std::ranges::copy(key.bytes, name.second.begin());
  name.second.back() = key.length;
  return name;
}

Status Objects::join(const SetOptions& options, const Link& link, const StoredKey& key,
                     std::shared_ptr<Partial>* partial) {
  {
    const std::scoped_lock lock(partials_mutex_);
    std::shared_ptr<Partial>& place = partials_[name_of(options.namespace_number, key)];
    if (place == nullptr) place = std::make_shared<Partial>(key);
    *partial = place;
  }
  Partial& begun = **partial;
  const std::scoped_lock lock(begun.mutex);
  if (begun.dropped) return Status::kCancelled;
  begun.last_part = std::chrono::steady_clock::now();
  if (begun.status == Status::kBusy) {
    begun.incoming.fingerprint = fingerprint_of(options.namespace_number, key);
    if (options.chain) put(link, &begun.incoming);
    begun.status = begin_patiently(options, options.object_bytes, &begun.incoming);
    if (begun.status == Status::kOk) {
      begun.parts.resize(options.parts, Partial::Part::kAbsent);
      begun.trailer.resize(trailer_bytes(begun.incoming.record));
    } else {
      retire(options.namespace_number, &begun);
    }
  }
  if (begun.status != Status::kOk) return begun.status;
  const nkv_object_record& record = begun.incoming.record;
  const bool same = record.bytes == options.object_bytes && record.parts == options.parts;
  return same ? Status::kOk : Status::kBadArgument;
}

Status Objects::set_part(const SetOptions& options, const Link& link, const ObjectItem& item) {
  const std::uint32_t count = item.part_count == 0 ? options.parts : item.part_count;
  if (item.key.empty() || options.parts < 2 || item.first_part + count > options.parts) {
    return Status::kBadArgument;
  }
  const StoredKey key(item);
  if (!options.overwrite) {
    if (const auto found = use(options.namespace_number, key)) {
      const InUse in_use(this, *found);
      hit(*found);
      return Status::kOk;
    }
  }
  std::shared_ptr<Partial> partial;
  const Status joined = join(options, link, key, &partial);
  if (joined != Status::kOk) return joined;
  const nkv_object_record& record = partial->incoming.record;
  SourceCursor source(item.source);
  if (source.remaining_bytes() != part_range(record, item.first_part, count).bytes) {
    return Status::kBadArgument;
  }
  for (std::uint32_t part = item.first_part; part < item.first_part + count; ++part) {
    {
      const std::scoped_lock lock(partial->mutex);
      if (partial->dropped) return Status::kCancelled;
      if (partial->parts[part] == Partial::Part::kOnItsWay) return Status::kBusy;
      partial->parts[part] = Partial::Part::kOnItsWay;
    }
    const std::size_t entry_bytes = trailer_entry_bytes(record);
    const auto entry = std::span(partial->trailer).subspan(part * entry_bytes, entry_bytes);
    const Status status = at_edge(
        [&] { return parts_.write_part(partial->incoming.extents, record, part, &source, entry); });
    // Whoever completes the object fences only what he has written himself.
    persistence_->fence();
    const std::scoped_lock lock(partial->mutex);
    partial->parts[part] = status == Status::kOk ? Partial::Part::kHere : Partial::Part::kAbsent;
    const bool writing =
        std::ranges::find(partial->parts, Partial::Part::kOnItsWay) != partial->parts.end();
    const bool breaks = status == Status::kTimeout || status == Status::kPoison;
    if (breaks) {
      partial->broken = status;
      if (!partial->dropped) retire(options.namespace_number, partial.get());
    }
    if (partial->dropped) {
      const bool sound = partial->broken == Status::kOk;
      if (!writing) abandon(partial->incoming, sound ? Status::kCancelled : partial->broken);
      return breaks ? status : Status::kCancelled;
    }
    if (status != Status::kOk) return status;
    if (std::ranges::all_of(partial->parts, [](auto it) { return it == Partial::Part::kHere; })) {
      return finish(options, partial.get());
    }
  }
  return Status::kOk;
}

void Objects::retire(std::uint32_t namespace_number, Partial* partial) {
  partial->dropped = true;
  const std::scoped_lock lock(partials_mutex_);
  // Whoever drops it may have taken it out already, and another may have begun in its place.
  const auto found = partials_.find(name_of(namespace_number, partial->incoming.key));
  if (found != partials_.end() && found->second.get() == partial) partials_.erase(found);
}

Status Objects::finish(const SetOptions& options, Partial* partial) {
  Incoming& incoming = partial->incoming;
  retire(options.namespace_number, partial);
  Status status = at_edge([&] {
    const Status written =
        parts_.write_trailer(incoming.extents, partial->trailer, &incoming.record);
    if (written != Status::kOk) return written;
    return write_extents(payload_.get(), incoming.extents, incoming.has_list, &incoming.record);
  });
  if (status != Status::kOk) {
    abandon(incoming, status);
    return status;
  }
  incoming.item = 0;
  commit(options.overwrite, std::span(&incoming, 1), std::span(&status, 1));
  return status;
}

bool Objects::drop_partial(std::uint32_t namespace_number, const StoredKey& key) {
  std::shared_ptr<Partial> partial;
  {
    const std::scoped_lock lock(partials_mutex_);
    const auto found = partials_.find(name_of(namespace_number, key));
    if (found == partials_.end()) return false;
    partial = std::move(found->second);
    partials_.erase(found);
  }
  const std::scoped_lock lock(partial->mutex);
  if (partial->dropped) return false;
  partial->dropped = true;
  const bool writing =
      std::ranges::find(partial->parts, Partial::Part::kOnItsWay) != partial->parts.end();
  // The last writer frees it.
  if (!writing && partial->status == Status::kOk) abandon(partial->incoming, Status::kCancelled);
  return true;
}

void Objects::drop_stale_partials() {
  const std::scoped_lock lock(partials_mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(partials_, [&](const auto& entry) {
    Partial& partial = *entry.second;
    // Whoever holds it is adding to it.
    const std::unique_lock held(partial.mutex, std::try_to_lock);
    if (!held || partial.status != Status::kOk || now - partial.last_part < kPartialPatience ||
        std::ranges::find(partial.parts, Partial::Part::kOnItsWay) != partial.parts.end()) {
      return false;
    }
    partial.dropped = true;
    abandon(partial.incoming, Status::kCancelled);
    return true;
  });
}

void Objects::set_parts(const SetOptions& options, std::span<const ObjectItem> items,
                        std::span<Status> statuses) {
  Link link = link_of(options);
  for (std::size_t i = 0; i < items.size(); ++i) {
    statuses[i] = set_part(options, link, items[i]);
    link.parent = fingerprint_of(options.namespace_number, StoredKey(items[i]));
    if (tree_.find(link.parent)) link.ancestor = link.parent;  // All its parts are here.
  }
}

}  // namespace nearkv
