// nearkv top
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <thread>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "cli/screen.hpp"

namespace nearkv::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr const char* kTopFooter =
    "DESCRIPTION\n"
    "  Shows what the tenants and clients of a daemon do, in rates per second, anew every "
    "interval.\n"
    "  On a terminal, q or Ctrl-C ends it; elsewhere it prints one table after the other, or one\n"
    "  line of JSON after the other. Needs the permission admin.\n\n"
    "EXAMPLES\n"
    "  nearkv top\n"
    "  nearkv top --interval 5\n"
    "  nearkv top --count 1 --json\n\n"
    "EXIT STATUS\n"
    "  0  done; 1  no daemon, or no permission; 2  wrong usage\n";

struct TopOptions {
  std::string socket;
  double interval_s = 1;
  std::uint64_t count = 0;
  bool json = false;
};

/// A daemon's counters and when they were read.
struct Sample {
  Report report;
  Clock::time_point time;
};

Sample take_sample(const DaemonStore& store) { return {read_report(store), Clock::now()}; }

struct Rates {
  std::string tenant;
  std::uint32_t clients = 0;
  std::uint64_t used_bytes = 0;
  double gets = 0;
  double get_bytes = 0;
  double sets = 0;
  double set_bytes = 0;
  double hit_ratio = 0;  ///< Of the interval; of everything if nothing was asked for in it.
};

std::vector<Rates> rates_between(const Sample& before, const Sample& after) {
  const double seconds =
      std::max(std::chrono::duration<double>(after.time - before.time).count(), 1e-9);
  std::map<std::uint16_t, nkv_daemon_tenant_info> old;
  for (const auto& tenant : before.report.tenants) old[tenant.number] = tenant;
  std::vector<Rates> all;
  for (const nkv_daemon_tenant_info& tenant : after.report.tenants) {
    const nkv_daemon_tenant_info& then = old[tenant.number];
    const auto rate = [&](std::uint64_t now, std::uint64_t was) {
      return static_cast<double>(now - std::min(now, was)) / seconds;
    };
    Rates rates;
    rates.tenant = padded_text(tenant.name);
    rates.clients = tenant.clients;
    rates.used_bytes = tenant.used_bytes;
    const double hits = rate(tenant.hits, then.hits);
    rates.gets = hits + rate(tenant.misses, then.misses);
    rates.get_bytes = rate(tenant.get_bytes, then.get_bytes);
    rates.sets = rate(tenant.sets, then.sets);
    rates.set_bytes = rate(tenant.set_bytes, then.set_bytes);
    const auto asked = static_cast<double>(tenant.hits + tenant.misses);
    if (rates.gets > 0) {
      rates.hit_ratio = hits / rates.gets;
    } else if (asked > 0) {
      rates.hit_ratio = static_cast<double>(tenant.hits) / asked;
    }
    all.push_back(std::move(rates));
  }
  return all;
}

std::string fixed(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string pad(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::vector<std::string> lines_of(const Sample& before, const Sample& after) {
  const nkv_daemon_store_stats& stats = after.report.stats;
  std::vector<std::string> lines;
  lines.push_back("pool " + size_text(stats.used_bytes) + " of " + size_text(stats.total_bytes) +
                  ", " + count_text(stats.objects) + " objects, " + count_text(stats.clients) +
                  " clients, " + count_text(stats.evictions) + " evicted, " +
                  count_text(stats.corruptions) + " corrupt");
  lines.emplace_back();
  lines.push_back(
      "TENANT          CLIENTS        USED    GETS/s       GET/s   HITS    SETS/s"
      "       SET/s");
  const auto bytes = [](double value) { return size_text(static_cast<std::uint64_t>(value)); };
  for (const Rates& rates : rates_between(before, after)) {
    std::string name = printable_text(rates.tenant).substr(0, 15);
    name.resize(15, ' ');
    lines.push_back(name + pad(std::to_string(rates.clients), 8) +
                    pad(size_text(rates.used_bytes), 12) + pad(fixed(rates.gets, 0), 10) +
                    pad(bytes(rates.get_bytes), 12) +
                    pad(fixed(rates.hit_ratio * 100, 0) + "%", 7) + pad(fixed(rates.sets, 0), 10) +
                    pad(bytes(rates.set_bytes), 12));
  }
  lines.emplace_back();
  lines.push_back(" PROCESS    USER  TENANT  JOBS  LEASES  REGIONS    REQUESTS      COPIED");
  for (const nkv_daemon_client_info& client : after.report.clients) {
    lines.push_back(pad(std::to_string(client.process_id), 8) +
                    pad(std::to_string(client.user_id), 8) + pad(std::to_string(client.tenant), 8) +
                    pad(std::to_string(client.queued_jobs), 6) +
                    pad(std::to_string(client.leases), 8) + pad(std::to_string(client.regions), 9) +
                    pad(count_text(client.requests), 12) + pad(size_text(client.copied_bytes), 12));
  }
  return lines;
}

Json json_of(const Sample& before, const Sample& after) {
  Json json = to_json(after.report);
  Json tenants = Json::array();
  for (const Rates& rates : rates_between(before, after)) {
    tenants.push_back({{"name", rates.tenant},
                       {"gets_per_s", rates.gets},
                       {"get_bytes_per_s", rates.get_bytes},
                       {"sets_per_s", rates.sets},
                       {"set_bytes_per_s", rates.set_bytes},
                       {"hit_ratio", rates.hit_ratio}});
  }
  json["rates"] = tenants;
  return json;
}

void watch(const TopOptions& options) {
  const std::unique_ptr<DaemonStore> store = connect(options.socket);
  const auto interval = std::chrono::duration<double>(options.interval_s);
  Sample before = take_sample(*store);
  const bool on_screen = !options.json && ::isatty(STDOUT_FILENO) != 0;
  std::unique_ptr<Screen> screen;
  if (on_screen) screen = std::make_unique<Screen>();
  for (std::uint64_t shown = 0; options.count == 0 || shown < options.count; ++shown) {
    if (screen && !screen->pause(interval)) return;
    if (!screen) std::this_thread::sleep_for(interval);
    Sample after = take_sample(*store);
    if (screen) {
      screen->show(lines_of(before, after));
    } else if (options.json) {
      print_json(json_of(before, after), /*is_line=*/true);
    } else {
      for (const std::string& line : lines_of(before, after)) std::cout << line << '\n';
      std::cout << '\n' << std::flush;
    }
    before = std::move(after);
  }
}

}  // namespace

void add_top(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("top", "Watch what tenants and clients do");
  command->footer(kTopFooter);
  auto options = std::make_shared<TopOptions>();
  add_socket_option(command, &options->socket);
  command->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--count", options->count, "End after so many; 0: never");
  command->add_flag("--json", options->json, "Print a line of JSON each time");
  command->callback([options, exit] {
    watch(*options);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli
