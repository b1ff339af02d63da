#include "daemon/server/config.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "daemon/server/config_table.hpp"
#include "daemon/wire/packet_socket.hpp"
#include "edge.hpp"
#include "policy/eviction_policy.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kMost = 1ULL << 46;  // 64 TiB.

PoolConfig take_pool(ConfigTable table) {
  PoolConfig pool;
  std::size_t device = 0;
  table.take_choice("device", {"cpu", "file"}, &device);
  pool.is_file = device == 1;
  table.take("path", &pool.path, "the path of a file or a DAX device");
  if (pool.path.find('?') != std::string::npos) {
    table.refuse("path", "a path without a question mark is allowed");
  }
  if (pool.is_file && pool.path.empty()) {
    table.refuse("path", "is missing; the path of a file is needed");
  }
  table.take_size("size", &pool.size_bytes, 4 * kMiB, kMost);
  std::uint64_t number = pool.max_objects;
  table.take("max_objects", &number, 16, 1ULL << 31);
  pool.max_objects = static_cast<std::uint32_t>(number);
  number = pool.max_namespaces;
  table.take("max_namespaces", &number, 1, 1 << 20);
  pool.max_namespaces = static_cast<std::uint32_t>(number);
  table.take("huge_pages", &pool.huge_pages);
  table.take("seal_key_file", &pool.seal_key_file, "the path of a file of 32 random bytes");
  table.take("defragment_above", &pool.defragment_above, 0.0, 1.0);
  table.done();
  return pool;
}

void take_pools(ConfigTable& root, ServerConfig* config) {
  std::vector<ConfigTable> tables = root.table_or_tables("pool");
  if (tables.empty()) return;
  config->pools.clear();
  for (ConfigTable& table : tables) {
    const PoolConfig pool = take_pool(table);
    const auto same = std::ranges::find(config->pools, pool.path, &PoolConfig::path);
    if (!pool.path.empty() && same != config->pools.end()) {
      table.refuse("path", "another pool has it already");
    }
    config->pools.push_back(pool);
  }
}

void take_stack(ConfigTable table, ServerConfig* config) {
  StackOptions& stack = config->stack;
  table.take("high_watermark", &stack.high_watermark, 0.01, 1.0);
  table.take("low_watermark", &stack.low_watermark, 0.01, 1.0);
  if (stack.low_watermark >= stack.high_watermark) {
    table.refuse("low_watermark", "less than high_watermark is allowed");
  }
  std::uint64_t number = stack.promote_after;
  table.take("promote_after", &number, 1, 1000);
  stack.promote_after = static_cast<unsigned>(number);
  table.take("write_through", &stack.write_through);
  number = static_cast<std::uint64_t>(stack.patience.count());
  table.take("patience_ms", &number, 0, 600000);
  stack.patience = std::chrono::milliseconds(number);
  table.done();
}

void take_socket(ConfigTable table, ServerConfig* config) {
  table.take("path", &config->socket.path, "the path of a Unix socket");
  std::string why;
  if (check_socket_path(config->socket.path, &why) != Status::kOk) table.refuse("path", why);
  table.take_mode("mode", &config->socket.mode);
  table.done();
}

void take_clients(ConfigTable table, ServerConfig* config) {
  std::uint64_t most = config->clients.max;
  table.take("max", &most, 1, 4096);
  config->clients.max = static_cast<std::uint32_t>(most);
  table.take_size("window", &config->clients.window_bytes, kMiB, 1ULL << 40);
  table.take_size("registered", &config->clients.registered_bytes, 0, kMost);
  table.done();
}

void take_log(ConfigTable table, ServerConfig* config) {
  auto level = static_cast<std::size_t>(config->log.level);
  table.take_choice("level", {"debug", "info", "warning", "error"}, &level);
  config->log.level = static_cast<LogLevel>(level);
  auto form = static_cast<std::size_t>(config->log.form);
  table.take_choice("form", {"text", "json"}, &form);
  config->log.form = static_cast<LogForm>(form);
  table.done();
}

void take_metrics(ConfigTable table, ServerConfig* config) {
  table.take("address", &config->metrics.address, "an IP address to listen at");
  if (table.has("port")) {
    std::uint64_t port = 0;
    table.take("port", &port, 0, 65535);
    config->metrics.port = static_cast<std::uint16_t>(port);
  }
  table.done();
}

TenantConfig take_tenant(ConfigTable table) {
  TenantConfig tenant;
  if (!table.has("number"))
    table.refuse("number", "is missing; a number from 0 to 65535 is needed");
  std::uint64_t number = 0;
  table.take("number", &number, 0, 65535);
  tenant.number = static_cast<std::uint16_t>(number);
  tenant.name = "tenant-" + std::to_string(number);
  table.take("name", &tenant.name, "a text");
  if (tenant.name.size() > NKV_DAEMON_NAME_BYTES) {
    table.refuse("name", "at most " + std::to_string(NKV_DAEMON_NAME_BYTES) + " bytes are allowed");
  }
  table.take_numbers("uids", &tenant.uids);
  table.take_numbers("gids", &tenant.gids);
  if (tenant.uids.empty() && tenant.gids.empty()) {
    table.refuse("uids", "nobody may use this tenant; name users in uids or groups in gids");
  }
  if (table.has("quota")) {
    std::uint64_t quota_bytes = 0;
    table.take_size("quota", &quota_bytes, 1, kMost);
    tenant.quota_bytes = quota_bytes;
  }
  std::optional<std::set<std::size_t>> permissions;
  table.take_choices("permissions", {"read", "write", "erase", "admin"}, &permissions);
  if (permissions) {
    tenant.permissions = 0;
    for (const std::size_t index : *permissions) {
      tenant.permissions = static_cast<std::uint8_t>(tenant.permissions | 1U << index);
    }
  }
  if (table.has("max_clients")) {
    std::uint64_t most = 0;
    table.take("max_clients", &most, 1, 4096);
    tenant.max_clients = static_cast<std::uint32_t>(most);
  }
  if (table.has("max_namespaces")) {
    std::uint64_t most = 0;
    table.take("max_namespaces", &most, 1, 1 << 20);
    tenant.max_namespaces = static_cast<std::uint32_t>(most);
  }
  table.done();
  return tenant;
}

void take_tenants(ConfigTable& root, ServerConfig* config) {
  for (ConfigTable& table : root.tables("tenant")) {
    const TenantConfig tenant = take_tenant(table);
    if (std::ranges::find(config->tenants, tenant.number, &TenantConfig::number) !=
        config->tenants.end()) {
      table.refuse("number", "tenant " + std::to_string(tenant.number) + " is there already");
    }
    if (std::ranges::find(config->tenants, tenant.name, &TenantConfig::name) !=
        config->tenants.end()) {
      table.refuse("name", "another tenant has it already");
    }
    config->tenants.push_back(tenant);
  }
}

void take_all(ConfigTable root, ServerConfig* config) {
  take_pools(root, config);
  if (auto table = root.table("stack")) {
    if (config->pools.size() < 2) root.refuse("stack", "only several [[pool]] have it");
    take_stack(*table, config);
  }
  if (auto table = root.table("socket")) take_socket(*table, config);
  if (auto table = root.table("clients")) take_clients(*table, config);
  if (auto table = root.table("log")) take_log(*table, config);
  if (auto table = root.table("metrics")) take_metrics(*table, config);
  take_tenants(root, config);
  std::uint64_t number = config->workers;
  root.take("workers", &number, 0, 1024);
  config->workers = static_cast<unsigned>(number);
  number = static_cast<std::uint64_t>(config->patience.count());
  root.take("patience_ms", &number, 0, 600000);
  config->patience = std::chrono::milliseconds(number);
  root.take_size("scrub_rate", &config->scrub_bytes_per_s, 0, kMost);
  root.take("eviction", &config->eviction, "the name of an eviction policy");
  std::unique_ptr<EvictionPolicy> policy;
  std::string why;
  if (make_eviction_policy(config->eviction, kMiB, {}, &policy, &why) != Status::kOk) {
    root.refuse("eviction", why);
  }
  root.done();
}

}  // namespace

Status parse_config(const std::string& text, const std::string& file, ServerConfig* config,
                    std::string* reason) {
  return at_edge([&] {
    try {
      const toml::table root = toml::parse(text, file);
      take_all(ConfigTable(file, "", root), config);
      return Status::kOk;
    } catch (const toml::parse_error& error) {
      *reason = file + ":" + std::to_string(error.source().begin.line) + ": " +
                std::string(error.description());
    } catch (const ConfigError& error) {
      *reason = error.what();
    }
    return Status::kBadArgument;
  });
}

Status read_config(const std::string& file, ServerConfig* config, std::string* reason) {
  return at_edge([&] {
    std::string text;
    bool is_read = false;
    try {
      std::ifstream input(file);
      is_read = input.is_open();
      text.assign(std::istreambuf_iterator<char>(input), {});
    } catch (const std::ios_base::failure&) {
      is_read = false;  // It is a folder, or its disk fails.
    }
    if (is_read) return parse_config(text, file, config, reason);
    *reason = file + ": cannot be read; name a configuration file";
    return Status::kIoError;
  });
}

}  // namespace nearkv
