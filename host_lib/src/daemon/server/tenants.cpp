#include "daemon/server/tenants.hpp"

#include <algorithm>
#include <limits>

namespace nearkv {
namespace {

bool admits(const TenantConfig& config, const Peer& peer) {
  return std::ranges::find(config.uids, peer.user) != config.uids.end() ||
         std::ranges::any_of(peer.groups, [&](gid_t group) {
           return std::ranges::find(config.gids, group) != config.gids.end();
         });
}

}  // namespace

ServerTenants::ServerTenants(const std::vector<TenantConfig>& configs) {
  for (const TenantConfig& config : configs) {
    tenants_.push_back(std::make_unique<Tenant>());
    tenants_.back()->config = config;
  }
}

std::vector<Grant> ServerTenants::grants_of(const Peer& peer) {
  std::vector<Grant> grants;
  for (const auto& tenant : tenants_) {
    if (!admits(tenant->config, peer)) continue;
    grants.push_back({tenant->config.number, tenant->config.permissions, &tenant->counters});
  }
  return grants;
}

bool ServerTenants::connect(const Grant& grant) {
  const auto tenant = std::ranges::find_if(
      tenants_, [&](const auto& candidate) { return &candidate->counters == grant.counters; });
  const std::uint32_t most =
      (*tenant)->config.max_clients.value_or(std::numeric_limits<std::uint32_t>::max());
  if (grant.counters->clients.fetch_add(1) < most) return true;
  grant.counters->clients.fetch_sub(1);
  return false;
}

void ServerTenants::disconnect(const Grant& grant) { grant.counters->clients.fetch_sub(1); }

}  // namespace nearkv
