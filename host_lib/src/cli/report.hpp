// A daemon's counters at one moment.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/client/daemon_store.hpp"

namespace nearkv::cli {

struct Report {
  nkv_daemon_store_stats stats{};
  std::vector<nkv_daemon_store_stats> tiers;  ///< The fastest first.
  std::vector<nkv_daemon_tenant_info> tenants;
  std::vector<nkv_daemon_client_info> clients;
};

/// Throws Failure.
[[nodiscard]] Report read_report(const DaemonStore& store);

[[nodiscard]] nlohmann::ordered_json to_json(const Report& report);

}  // namespace nearkv::cli
