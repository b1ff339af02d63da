// A tier without bytes: keys in records of limited room, so that a policy can be watched at work.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "policy/eviction_policy.hpp"

namespace nearkv::test {

using Key = std::uint64_t;

inline std::unique_ptr<EvictionPolicy> shipped_policy(std::string_view name,
                                                      std::uint64_t capacity_bytes) {
  std::unique_ptr<EvictionPolicy> policy;
  std::string reason;
  if (make_eviction_policy(name, capacity_bytes, {}, &policy, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  return policy;
}

inline bool any_object(ObjectId /*id*/) { return true; }

/// Evicts before it inserts, as a store must.
class Tier {
 public:
  /// Freed records are used again, the last one first, or never.
  enum class Records : std::uint8_t { kUsedAgain, kUsedOnce };

  Tier(std::string_view policy, std::uint64_t capacity_bytes, Records records = Records::kUsedAgain)
      : policy_(shipped_policy(policy, capacity_bytes)),
        capacity_bytes_(capacity_bytes),
        records_(records) {}

  /// Uses the key, storing it if it is not held; returns the keys evicted for it, in order.
  std::vector<Key> use(Key key, std::uint32_t bytes, Key parent = kNoKey) {
    std::vector<Key> evicted;
    if (const auto held = id_of_.find(key); held != id_of_.end()) {
      policy_->hit(held->second);
      return evicted;
    }
    while (policy_->bytes() + bytes > capacity_bytes_) evicted.push_back(evict_one());
    if (free_.empty()) {
      free_.push_back(static_cast<ObjectId>(key_of_.size()));
      key_of_.push_back(kNoKey);
    }
    const ObjectId id = free_.back();
    free_.pop_back();
    key_of_[id] = key;
    id_of_[key] = id;
    const auto before = id_of_.find(parent);
    policy_->insert({.id = id,
                     .fingerprint = key,
                     .bytes = bytes,
                     .parent = before == id_of_.end() ? kNoObject : before->second});
    return evicted;
  }

  Key evict_one() {
    const auto victim = policy_->victim(any_object);
    if (!victim) throw std::logic_error("no victim in a tier that holds something");
    const Key key = key_of_.at(*victim);
    remove(key, Removal::kEvicted);
    return key;
  }

  void remove(Key key, Removal removal) {
    const auto held = id_of_.find(key);
    policy_->erase(held->second, removal);
    if (records_ == Records::kUsedAgain) free_.push_back(held->second);
    id_of_.erase(held);
  }

  [[nodiscard]] bool holds(Key key) const { return id_of_.contains(key); }
  [[nodiscard]] std::size_t size() const { return id_of_.size(); }
  [[nodiscard]] EvictionPolicy& policy() { return *policy_; }

  static constexpr Key kNoKey = ~Key{0};

 private:
  std::unique_ptr<EvictionPolicy> policy_;
  std::uint64_t capacity_bytes_;
  Records records_;
  std::map<Key, ObjectId> id_of_;
  std::vector<Key> key_of_;
  std::vector<ObjectId> free_;
};

}  // namespace nearkv::test
