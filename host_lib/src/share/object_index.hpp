// The objects of one log.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

#include "nkv_abi.h"

namespace nearkv {

/// An engine's hash of what an object holds.
struct ObjectKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const ObjectKey&) const = default;
};

/// One publication under a key, for ever: its first publisher's log entry. This is the object's
/// generation: the same key published again is another object.
struct ObjectId {
  std::uint16_t host = 0;
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;

  auto operator<=>(const ObjectId&) const = default;
};

[[nodiscard]] inline ObjectId id_of(const nkv_share_entry& entry) {
  return {entry.host, entry.origin_epoch, entry.origin_number};
}

/// What the entries of a log, taken in order, leave to be read. Not thread safe.
class ObjectIndex {
 public:
  /// Takes a PUBLISH or REMOVE entry; an older version than the known one changes nothing.
  void apply(const nkv_share_entry& entry) {
    const ObjectId id = id_of(entry);
    const auto found = objects_.find(id);
    if (entry.kind == NKV_SHARE_ENTRY_KIND_PUBLISH) {
      if (found != objects_.end() && found->second.version > entry.version) return;
      objects_.insert_or_assign(id, entry);
      keys_.insert({{entry.key_low, entry.key_high}, id});
    } else if (found != objects_.end()) {
      keys_.erase({{found->second.key_low, found->second.key_high}, id});
      objects_.erase(found);
    }
  }

  [[nodiscard]] const nkv_share_entry* find(const ObjectId& id) const {
    const auto found = objects_.find(id);
    return found == objects_.end() ? nullptr : &found->second;
  }

  /// Any object under the key.
  [[nodiscard]] const nkv_share_entry* find(const ObjectKey& key) const {
    const auto found = keys_.lower_bound({key, ObjectId{}});
    return found == keys_.end() || found->first != key ? nullptr : find(found->second);
  }

  [[nodiscard]] const std::map<ObjectId, nkv_share_entry>& objects() const { return objects_; }

  void clear() {
    objects_.clear();
    keys_.clear();
  }

 private:
  std::map<ObjectId, nkv_share_entry> objects_;
  std::set<std::pair<ObjectKey, ObjectId>> keys_;
};

}  // namespace nearkv
