#include "cli/report.hpp"

#include <limits>

#include "cli/command.hpp"

namespace nearkv::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const nkv_daemon_store_stats& stats) {
  return {{"total_bytes", stats.total_bytes},
          {"used_bytes", stats.used_bytes},
          {"object_bytes", stats.object_bytes},
          {"objects", stats.objects},
          {"namespaces", stats.namespaces},
          {"leases", stats.leases},
          {"sets", stats.sets},
          {"set_bytes", stats.set_bytes},
          {"hits", stats.hits},
          {"get_bytes", stats.get_bytes},
          {"misses", stats.misses},
          {"evictions", stats.evictions},
          {"expirations", stats.expirations},
          {"corruptions", stats.corruptions},
          {"recovered", stats.recovered},
          {"torn", stats.torn},
          {"moved", stats.moved},
          {"quarantined", stats.quarantined},
          {"promotions", stats.promotions},
          {"demotions", stats.demotions},
          {"scrubbed_bytes", stats.scrubbed_bytes},
          {"max_objects", stats.max_objects},
          {"max_object_bytes", NKV_MAX_OBJECT_BYTES},
          {"max_namespaces", stats.max_namespaces},
          {"max_name_bytes", NKV_NAMESPACE_NAME_BYTES}};
}

Json tier_to_json(const nkv_daemon_store_stats& stats) {
  return {{"total_bytes", stats.total_bytes},
          {"used_bytes", stats.used_bytes},
          {"objects", stats.objects},
          {"sets", stats.sets},
          {"hits", stats.hits},
          {"misses", stats.misses},
          {"evictions", stats.evictions},
          {"corruptions", stats.corruptions}};
}

Json to_json(const nkv_daemon_tenant_info& tenant) {
  Json quota_bytes = nullptr;
  if (tenant.quota_bytes != std::numeric_limits<std::uint64_t>::max()) {
    quota_bytes = tenant.quota_bytes;
  }
  return {{"number", tenant.number},       {"name", padded_text(tenant.name)},
          {"clients", tenant.clients},     {"used_bytes", tenant.used_bytes},
          {"quota_bytes", quota_bytes},    {"sets", tenant.sets},
          {"set_bytes", tenant.set_bytes}, {"hits", tenant.hits},
          {"get_bytes", tenant.get_bytes}, {"misses", tenant.misses},
          {"denials", tenant.denials}};
}

Json to_json(const nkv_daemon_client_info& client) {
  return {{"process", client.process_id},      {"user", client.user_id},
          {"tenant", client.tenant},           {"leases", client.leases},
          {"queued_jobs", client.queued_jobs}, {"regions", client.regions},
          {"requests", client.requests},       {"copied_bytes", client.copied_bytes},
          {"connected_s", client.connected_s}};
}

}  // namespace

Report read_report(const DaemonStore& store) {
  Report report;
  require(store.store_stats(&report.stats), "counters");
  require(store.tier_infos(&report.tiers), "tiers");
  require(store.tenant_infos(&report.tenants), "tenants");
  require(store.client_infos(&report.clients), "clients");
  return report;
}

Json to_json(const Report& report) {
  Json json = {{"store", to_json(report.stats)},
               {"tiers", Json::array()},
               {"tenants", Json::array()},
               {"clients", Json::array()}};
  for (const auto& tier : report.tiers) json["tiers"].push_back(tier_to_json(tier));
  for (const auto& tenant : report.tenants) json["tenants"].push_back(to_json(tenant));
  for (const auto& client : report.clients) json["clients"].push_back(to_json(client));
  return json;
}

}  // namespace nearkv::cli
