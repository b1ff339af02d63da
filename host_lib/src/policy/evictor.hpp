// One tenant's eviction: a policy, and before it whatever has expired.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "policy/eviction_policy.hpp"

namespace nearkv {

/// Tells a policy of objects and keeps their expiries. The clock is the caller's, in seconds, and
/// may jump: an object is expired while the clock is at or past its expiry, and nothing else is
/// remembered of the time.
///
/// Memory beside the policy's: 8 bytes for each id up to the largest that expires, and some 56 for
/// each object that expires. An object that expires costs the logarithm of their number.
///
/// Thread safety: one thread at a time.
class Evictor {
 public:
  explicit Evictor(std::unique_ptr<EvictionPolicy> policy) : policy_(std::move(policy)) {}

  /// As the policy's.
  void insert(const Entry& entry);
  void hit(ObjectId id) { policy_->hit(id); }
  void erase(ObjectId id, Removal removal);
  void rename(ObjectId from, ObjectId to, std::span<const ObjectId> children);
  [[nodiscard]] std::uint64_t bytes() const { return policy_->bytes(); }

  /// An expired object that may leave, or else the policy's victim.
  [[nodiscard]] std::optional<ObjectId> victim(std::uint64_t now_s, const Evictable& evictable);

  /// An expired object that may leave, the earliest expiry first. Of those held it looks at 64 a
  /// call, and goes on behind them at the next.
  [[nodiscard]] std::optional<ObjectId> expired(std::uint64_t now_s, const Evictable& evictable);

 private:
  using Expiry = std::pair<std::uint64_t, ObjectId>;

  void note_expiry(ObjectId id, std::uint64_t expires_s);
  void forget_expiry(ObjectId id);

  std::unique_ptr<EvictionPolicy> policy_;
  std::set<Expiry> expiries_;
  std::vector<std::uint64_t> expires_s_;  ///< By id, as far as any expires.
  Expiry looked_at_{0, 0};                ///< The last one found held.
};

}  // namespace nearkv
