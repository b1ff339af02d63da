// nearkv stat
#include <iostream>
#include <limits>

#include "cli/command.hpp"
#include "cli/report.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kStatFooter =
    "DESCRIPTION\n"
    "  What a daemon's pool holds, what was done with it, what of it in each of several tiers, "
    "and\n"
    "  what each tenant has of both.\n"
    "  Needs the permission admin. Counters of the store begin with the daemon.\n\n"
    "EXAMPLES\n"
    "  nearkv stat\n"
    "  nearkv stat --json | jq .store.hits\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  no daemon, or no permission; 2  wrong usage\n";

/// Each of several tiers, the fastest first, and what moved between them.
void print_tiers(const Report& report) {
  if (report.tiers.size() < 2) return;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t tier = 0; tier < report.tiers.size(); ++tier) {
    const nkv_daemon_store_stats& stats = report.tiers[tier];
    rows.push_back({std::to_string(tier), size_text(stats.used_bytes), size_text(stats.total_bytes),
                    count_text(stats.objects), count_text(stats.sets), count_text(stats.hits),
                    count_text(stats.misses), count_text(stats.evictions)});
  }
  print_table({"TIER", "USED", "SIZE", "OBJECTS", "SETS", "HITS", "MISSES", "EVICTED"}, rows);
  std::cout << count_text(report.stats.promotions) << " copied up, "
            << count_text(report.stats.demotions) << " handed down\n\n";
}

void print_text(const Report& report) {
  const nkv_daemon_store_stats& stats = report.stats;
  std::cout << "pool      " << size_text(stats.used_bytes) << " of " << size_text(stats.total_bytes)
            << " used, " << count_text(stats.objects) << " objects of "
            << size_text(stats.object_bytes) << ", " << count_text(stats.namespaces)
            << " namespaces, " << count_text(stats.leases) << " leases\n"
            << "sets      " << count_text(stats.sets) << ", " << size_text(stats.set_bytes) << '\n'
            << "gets      " << count_text(stats.hits) << " hits, " << size_text(stats.get_bytes)
            << "; " << count_text(stats.misses) << " misses\n"
            << "gone      " << count_text(stats.evictions) << " evicted, "
            << count_text(stats.expirations) << " expired\n"
            << "health    " << count_text(stats.corruptions) << " corrupt, "
            << count_text(stats.quarantined) << " quarantined, " << size_text(stats.scrubbed_bytes)
            << " scrubbed\n"
            << "restart   " << count_text(stats.recovered) << " objects found, "
            << count_text(stats.torn) << " records dropped\n"
            << "limits    objects of " << size_text(NKV_MAX_OBJECT_BYTES) << ", "
            << count_text(stats.max_objects) << " of them; " << count_text(stats.max_namespaces)
            << " namespaces, with names of " << NKV_NAMESPACE_NAME_BYTES << " bytes\n"
            << "clients   " << count_text(stats.clients) << "\n\n";
  print_tiers(report);
  std::vector<std::vector<std::string>> rows;
  for (const nkv_daemon_tenant_info& tenant : report.tenants) {
    const bool limited = tenant.quota_bytes != std::numeric_limits<std::uint64_t>::max();
    rows.push_back({padded_text(tenant.name), std::to_string(tenant.number),
                    std::to_string(tenant.clients), size_text(tenant.used_bytes),
                    limited ? size_text(tenant.quota_bytes) : "none", count_text(tenant.sets),
                    count_text(tenant.hits), count_text(tenant.misses),
                    count_text(tenant.denials)});
  }
  print_table({"TENANT", "NUMBER", "CLIENTS", "USED", "QUOTA", "SETS", "HITS", "MISSES", "DENIED"},
              rows);
}

}  // namespace

void add_stat(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("stat", "Say what a daemon holds and has done");
  command->footer(kStatFooter);
  auto socket = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  add_socket_option(command, socket.get());
  command->add_flag("--json", *json, "Print JSON");
  command->callback([socket, json, exit] {
    const Report report = read_report(*connect(*socket));
    if (*json) {
      print_json(to_json(report));
    } else {
      print_text(report);
    }
    *exit = kDone;
  });
}

}  // namespace nearkv::cli
