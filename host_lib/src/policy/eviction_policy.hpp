// Which object leaves the tier next: the interface of eviction policies, and those that ship.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/status.hpp"
#include "object/object_id.hpp"

namespace nearkv {

/// An object that never expires.
inline constexpr std::uint64_t kNeverExpires = std::numeric_limits<std::uint64_t>::max();

/// What a policy learns of an object.
struct Entry {
  ObjectId id = kNoObject;
  std::uint64_t fingerprint = 0;            ///< Of its key: the same when the key comes back.
  std::uint32_t bytes = 0;                  ///< At least 1.
  ObjectId parent = kNoObject;              ///< The block before it in its chain, if held.
  std::uint64_t expires_s = kNeverExpires;  ///< On the store's clock; policies need not look.
};

/// Why an object is erased. Policies that remember what they lost remember only kEvicted.
enum class Removal : std::uint8_t { kEvicted, kDeleted };

/// Whether an object may leave now: not leased, not pinned, not passed over for its children.
using Evictable = std::function<bool(ObjectId)>;

/// The order in which the objects of one tenant leave. Operations take amortised constant time.
///
/// Blocks of a chain are best told head before tail; a policy may use Entry::parent to let tails
/// leave before heads. std::bad_alloc may pass through insert, erase and rename: an object that
/// insert did not take is unknown to the policy, one that erase was told of is gone from it, one
/// that was not renamed has its old id.
///
/// Thread safety: one thread at a time.
class EvictionPolicy {
 public:
  EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;
  virtual ~EvictionPolicy() = default;

  /// An object has become visible. Its id must not be known.
  virtual void insert(const Entry& entry) = 0;

  /// A known object was used.
  virtual void hit(ObjectId id) = 0;

  /// A known object is gone.
  virtual void erase(ObjectId id, Removal removal) = 0;

  /// A known object has another id from now on, which must not be known; its place stays.
  /// `children`: those that were told that it is their parent.
  virtual void rename(ObjectId from, ObjectId to, std::span<const ObjectId> children) = 0;

  /// The object that should leave next, of those that `evictable` lets go; it stays known until it
  /// is erased. None if no object may leave, or if none was found among the 1,024 looked at last
  /// while every other one is held too: a later call looks further.
  [[nodiscard]] virtual std::optional<ObjectId> victim(const Evictable& evictable) = 0;

  /// Bytes of all known objects.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
};

/// Makes a policy for a tier of `capacity_bytes`.
using EvictionPolicyFactory =
    std::function<std::unique_ptr<EvictionPolicy>(std::uint64_t capacity_bytes)>;

/// A policy by name: one that ships, or a user's own.
struct NamedEvictionPolicy {
  std::string name;
  EvictionPolicyFactory make;
};

/// The policies that ship: lru, chain_lhd.
[[nodiscard]] std::vector<NamedEvictionPolicy> shipped_eviction_policies();

/// Makes the policy of that name; one of `own` comes before one that ships. kBadArgument with a
/// `reason` that lists the names if there is none, if its factory makes nothing, or for no bytes.
Status make_eviction_policy(std::string_view name, std::uint64_t capacity_bytes,
                            std::span<const NamedEvictionPolicy> own,
                            std::unique_ptr<EvictionPolicy>* policy, std::string* reason);

}  // namespace nearkv
