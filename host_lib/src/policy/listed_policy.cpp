#include "policy/listed_policy.hpp"

#include <utility>

namespace nearkv {
namespace {

// A chain's blocks may come interleaved with other requests' blocks: as long as the parent is this
// much younger than an average object, the child does not lose by lying behind it.
constexpr std::uint64_t kJustBeforeShare = 8;

constexpr std::size_t kParkedLooks = 4;
constexpr std::size_t kLastLooks = 1024;

}  // namespace

void ListedPolicy::insert(const Entry& entry) {
  if (entry.id >= objects_.size()) objects_.resize(std::size_t{entry.id} + 1);
  Object& object = objects_[entry.id];
  object = Object();
  object.fingerprint = entry.fingerprint;
  object.bytes = entry.bytes;
  if (entry.parent != entry.id && is_known(entry.parent)) object.parent = entry.parent;
  bytes_ += entry.bytes;
  clock_ += entry.bytes;
  on_insert(entry.id);
}

void ListedPolicy::hit(ObjectId id) {
  clock_ += objects_[id].bytes;
  on_hit(id);
}

void ListedPolicy::erase(ObjectId id, Removal removal) {
  Object& object = objects_[id];
  // A parked parent that waited for this child alone is due.
  if (is_known(object.parent) && objects_[object.parent].parked) {
    unlink(&parked_, object.parent);
    link_oldest(&parked_, object.parent);
  }
  const Object gone = object;
  bytes_ -= gone.bytes;
  leave_list(id);
  on_erase(gone, removal);
}

void ListedPolicy::rename(ObjectId from, ObjectId to, std::span<const ObjectId> children) {
  if (to >= objects_.size()) objects_.resize(std::size_t{to} + 1);
  const Object& object = objects_[to] = std::exchange(objects_[from], Object());
  Ends& ends = ends_of(object);
  (object.newer != kNoObject ? objects_[object.newer].older : ends.newest) = to;
  (object.older != kNoObject ? objects_[object.older].newer : ends.oldest) = to;
  for (const ObjectId child : children) {
    if (is_known(child) && objects_[child].parent == from) objects_[child].parent = to;
  }
}

std::optional<ObjectId> ListedPolicy::victim(const Evictable& evictable) {
  if (const auto found = look_at_parked(kParkedLooks, evictable)) return found;
  for (ObjectId id = candidate(); id != kNoObject; id = candidate()) {
    if (evictable(id)) return id;
    park(id);
  }
  return look_at_parked(kLastLooks, evictable);
}

std::optional<ObjectId> ListedPolicy::look_at_parked(std::size_t looks,
                                                     const Evictable& evictable) {
  const ObjectId last = parked_.newest;
  for (; looks > 0 && parked_.oldest != kNoObject; --looks) {
    const ObjectId id = parked_.oldest;
    if (evictable(id)) return id;
    if (id == last) break;
    unlink(&parked_, id);
    link_newest(&parked_, id);
  }
  return std::nullopt;
}

void ListedPolicy::place(ObjectId id, std::uint8_t list) {
  Object& child = objects_[id];
  const ObjectId front = is_known(child.parent) ? child.parent : id;
  Object& parent = objects_[front];
  const std::uint64_t just_before = bytes_ / kJustBeforeShare + child.bytes;
  const bool is_behind = front != id && parent.list == list && !parent.parked &&
                         clock_ - parent.placed_at <= just_before;
  leave_list(id);
  child.list = list;
  child.placed_at = clock_;
  if (!is_behind) return link_newest(&lists_[list], id);
  child.newer = front;
  child.older = parent.older;
  (parent.older != kNoObject ? objects_[parent.older].newer : lists_[list].oldest) = id;
  parent.older = id;
}

void ListedPolicy::link_newest(Ends* ends, ObjectId id) {
  Object& object = objects_[id];
  object.newer = kNoObject;
  object.older = ends->newest;
  (ends->newest != kNoObject ? objects_[ends->newest].newer : ends->oldest) = id;
  ends->newest = id;
}

void ListedPolicy::link_oldest(Ends* ends, ObjectId id) {
  Object& object = objects_[id];
  object.older = kNoObject;
  object.newer = ends->oldest;
  (ends->oldest != kNoObject ? objects_[ends->oldest].older : ends->newest) = id;
  ends->oldest = id;
}

void ListedPolicy::unlink(Ends* ends, ObjectId id) {
  Object& object = objects_[id];
  (object.newer != kNoObject ? objects_[object.newer].older : ends->newest) = object.older;
  (object.older != kNoObject ? objects_[object.older].newer : ends->oldest) = object.newer;
  object.newer = object.older = kNoObject;
}

void ListedPolicy::leave_list(ObjectId id) {
  Object& object = objects_[id];
  if (object.list == kNoList) return;
  unlink(&ends_of(object), id);
  object.list = kNoList;
  object.parked = false;
}

void ListedPolicy::park(ObjectId id) {
  Object& object = objects_[id];
  unlink(&lists_[object.list], id);
  object.parked = true;
  link_newest(&parked_, id);
}

}  // namespace nearkv
