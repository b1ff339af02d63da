// What is known of each object besides its record: who is using it, and whose it is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nkv_abi.h"
#include "object/object_id.hpp"

namespace nearkv {

/// One object's state in this process. 32 bytes.
struct ObjectState {
  std::uint64_t fingerprint = 0;
  std::atomic<std::uint32_t> users{0};
  std::uint32_t grains = 0;
  std::uint32_t bytes = 0;
  std::uint32_t namespace_number = 0;
  std::uint16_t tenant = 0;
  bool known = false;    ///< Is in the index and its tenant's policy.
  bool chained = false;  ///< Is in the prefix tree.
  bool wipe = false;     ///< Its bytes are wiped when it goes.

  /// Takes over what does not change as long as the object is there.
  void set(std::uint64_t its_fingerprint, const nkv_object_record& record) {
    fingerprint = its_fingerprint;
    grains = record.grains;
    bytes = record.bytes;
    namespace_number = record.namespace_number;
    tenant = record.tenant;
    wipe = (record.flags & NKV_OBJECT_FLAG_WIPE) != 0;
  }
};

/// Counts users of objects: readers, and leases. An object that is retired gets no new users, and
/// whoever ends the last use learns that it may be reclaimed.
///
/// use() and lease() are called while the index keeps the object from being retired, or by who has
/// a use already. Thread safety: all calls.
class ObjectStates {
 public:
  explicit ObjectStates(std::size_t count) : states_(std::make_unique<ObjectState[]>(count)) {}

  [[nodiscard]] ObjectState& operator[](ObjectId id) { return states_[id]; }
  [[nodiscard]] const ObjectState& operator[](ObjectId id) const { return states_[id]; }

  void use(ObjectId id) { states_[id].users.fetch_add(kReader, std::memory_order_acquire); }
  /// False if the object has as many leases as can be counted.
  [[nodiscard]] bool lease(ObjectId id) {
    std::uint32_t users = states_[id].users.load(std::memory_order_relaxed);
    do {
      if (users % kReader / kLease == kReader / kLease - 1) return false;
    } while (
        !states_[id].users.compare_exchange_weak(users, users + kLease, std::memory_order_acquire));
    return true;
  }

  /// True: the object was retired and this was its last use; the caller reclaims it.
  [[nodiscard]] bool end_use(ObjectId id) { return end(id, kReader); }
  [[nodiscard]] bool end_lease(ObjectId id) { return end(id, kLease); }

  [[nodiscard]] bool in_use(ObjectId id) const { return users(id) != 0; }
  [[nodiscard]] bool leased(ObjectId id) const { return users(id) % kReader / kLease != 0; }

  /// True: nobody used it, and the caller reclaims it.
  [[nodiscard]] bool retire(ObjectId id) {
    return states_[id].users.fetch_or(kRetired, std::memory_order_acq_rel) == 0;
  }

  /// After it was reclaimed: the number may be used again.
  void reset(ObjectId id) { states_[id].users.store(0, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kRetired = 1;
  static constexpr std::uint32_t kLease = 2;         // 15 bits of leases,
  static constexpr std::uint32_t kReader = 1 << 16;  // 16 bits of readers.

  [[nodiscard]] std::uint32_t users(ObjectId id) const {
    return states_[id].users.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool end(ObjectId id, std::uint32_t unit) {
    return states_[id].users.fetch_sub(unit, std::memory_order_acq_rel) == (unit | kRetired);
  }

  std::unique_ptr<ObjectState[]> states_;
};

}  // namespace nearkv
