// What policies that keep objects in lists share: records, links, and the passing over of held
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/eviction_policy.hpp"

namespace nearkv {

/// Objects in a fixed number of lists, linked by index through one vector: 40 bytes an object.
///
/// A derived policy says where an object goes and which one it would evict next. A candidate that
/// may not leave is parked: it keeps its place in the policy's accounts but is no candidate again
/// until it is used, or is found evictable when parked objects are looked at anew.
class ListedPolicy : public EvictionPolicy {
 public:
  void insert(const Entry& entry) final;
  void hit(ObjectId id) final;
  void erase(ObjectId id, Removal removal) final;
  void rename(ObjectId from, ObjectId to, std::span<const ObjectId> children) final;
  [[nodiscard]] std::optional<ObjectId> victim(const Evictable& evictable) final;
  [[nodiscard]] std::uint64_t bytes() const final { return bytes_; }

 protected:
  struct Object {
    std::uint64_t fingerprint = 0;
    std::uint64_t placed_at = 0;  ///< clock() when it was placed last.
    std::uint32_t bytes = 0;
    ObjectId parent = kNoObject;  ///< When it was inserted: another object may have the id by now.
    ObjectId newer = kNoObject;   ///< Its neighbours in its list, or among the parked.
    ObjectId older = kNoObject;
    std::uint8_t list = kNoList;
    std::uint8_t uses = 0;    ///< For the derived policy.
    std::uint8_t traits = 0;  ///< For the derived policy.
    bool parked = false;
  };
  static_assert(sizeof(Object) == 40);
  static constexpr std::uint8_t kNoList = 0xff;

  explicit ListedPolicy(std::size_t lists) : lists_(lists) {}

  /// Must place the object in a list.
  virtual void on_insert(ObjectId id) = 0;
  /// May place it anew.
  virtual void on_hit(ObjectId id) = 0;
  /// `gone` is what the object was, its list included; no list counts it any more.
  virtual void on_erase(const Object& gone, Removal removal) = 0;
  /// The object to evict next, among those in lists and not parked, or kNoObject. Asked again it
  /// gives the same, unless that was parked or something else happened.
  virtual ObjectId candidate() = 0;

  [[nodiscard]] Object& object(ObjectId id) { return objects_[id]; }
  [[nodiscard]] bool is_known(ObjectId id) const {
    return id < objects_.size() && objects_[id].list != kNoList;
  }
  /// Bytes used so far, the object in hand included: what time is measured in.
  [[nodiscard]] std::uint64_t clock() const { return clock_; }
  /// The oldest of a list that is not parked, or kNoObject.
  [[nodiscard]] ObjectId oldest(std::uint8_t list) const { return lists_[list].oldest; }

  /// Takes the object out of where it is and makes it the newest of `list`, but right behind its
  /// parent where that is in `list` and was placed just before: so a chain told head first lies in
  /// its list as if told tail first.
  void place(ObjectId id, std::uint8_t list);

 private:
  struct Ends {
    ObjectId newest = kNoObject;
    ObjectId oldest = kNoObject;
  };

  [[nodiscard]] Ends& ends_of(const Object& object) {
    return object.parked ? parked_ : lists_[object.list];
  }
  void link_newest(Ends* ends, ObjectId id);
  void link_oldest(Ends* ends, ObjectId id);
  void unlink(Ends* ends, ObjectId id);
  void leave_list(ObjectId id);
  void park(ObjectId id);
  [[nodiscard]] std::optional<ObjectId> look_at_parked(std::size_t looks,
                                                       const Evictable& evictable);

  std::vector<Object> objects_;
  std::vector<Ends> lists_;
  Ends parked_;
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace nearkv
