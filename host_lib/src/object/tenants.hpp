// Tenants of a pool: what each holds, may hold, and gives up first.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nearkv/object_store.hpp"
#include "policy/evictor.hpp"

namespace nearkv {

struct TenantOptions {
  std::string policy = "lru";
  std::vector<NamedEvictionPolicy> own_policies;
  std::uint64_t capacity_bytes = 0;  ///< Of the pool.
};

/// Thread safety: one thread at a time.
class Tenants {
 public:
  struct Tenant {
    std::uint64_t quota_bytes = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t used_bytes = 0;
    bool wipe = false;
    std::unique_ptr<Evictor> evictor;
  };

  /// The policy's name has been checked with check().
  explicit Tenants(TenantOptions options) : options_(std::move(options)) {}

  /// kBadArgument with a reason if there is no such policy.
  static Status check(const TenantOptions& options, std::string* reason);

  [[nodiscard]] Tenant& at(std::uint16_t number);

  [[nodiscard]] std::vector<TenantUsage> usages() const;

  /// Whoever holds anything, in the order in which they give room to others: first who is over his
  /// quota, then who holds the most.
  [[nodiscard]] std::vector<std::uint16_t> in_turn() const;

 private:
  TenantOptions options_;
  std::map<std::uint16_t, Tenant> tenants_;
};

}  // namespace nearkv
