#include "object/tenants.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

namespace nearkv {

Status Tenants::check(const TenantOptions& options, std::string* reason) {
  std::unique_ptr<EvictionPolicy> policy;
  return make_eviction_policy(options.policy, options.capacity_bytes, options.own_policies, &policy,
                              reason);
}

Tenants::Tenant& Tenants::at(std::uint16_t number) {
  Tenant& tenant = tenants_[number];
  if (tenant.evictor == nullptr) {
    std::unique_ptr<EvictionPolicy> policy;
    std::string reason;
    if (make_eviction_policy(options_.policy, options_.capacity_bytes, options_.own_policies,
                             &policy, &reason) != Status::kOk) {
      throw std::runtime_error(reason);
    }
    tenant.evictor = std::make_unique<Evictor>(std::move(policy));
  }
  return tenant;
}

std::vector<TenantUsage> Tenants::usages() const {
  std::vector<TenantUsage> usages;
  usages.reserve(tenants_.size());
  for (const auto& [number, tenant] : tenants_) {
    usages.push_back({number, tenant.used_bytes, tenant.quota_bytes});
  }
  return usages;
}

std::vector<std::uint16_t> Tenants::in_turn() const {
  std::vector<std::uint16_t> numbers;
  for (const auto& [number, tenant] : tenants_) {
    if (tenant.used_bytes != 0) numbers.push_back(number);
  }
  std::ranges::sort(numbers, std::ranges::greater(), [this](std::uint16_t number) {
    const Tenant& tenant = tenants_.at(number);
    return std::pair(tenant.used_bytes > tenant.quota_bytes, tenant.used_bytes);
  });
  return numbers;
}

}  // namespace nearkv
