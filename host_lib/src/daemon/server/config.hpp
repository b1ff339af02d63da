// How a daemon is set up.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/server/log.hpp"
#include "daemon/server/tenants.hpp"
#include "nearkv/object_store.hpp"
#include "nearkv/status.hpp"

namespace nearkv {

/// Where objects live.
struct PoolConfig {
  bool is_file = false;           ///< Read and written past the page cache, not mapped.
  std::string path;               ///< A file or a DAX device; empty: memory that does not survive.
  std::uint64_t size_bytes = 0;   ///< Of a new pool; 0: all of a DAX device.
  std::uint32_t max_objects = 0;  ///< Of a new pool; 0: one for every 64 KiB.
  std::uint32_t max_namespaces = 1024;
  bool huge_pages = true;
  std::string seal_key_file;  ///< Objects are encrypted with it; empty: they are not.
  double defragment_above = ObjectStore::Options().defragment_above;
};

/// Every setting, with what it is when nobody sets it. share/nearkv.toml has them as a file.
struct ServerConfig {
  std::vector<PoolConfig> pools{PoolConfig()};  ///< At least one; several: tiers, fast first.
  StackOptions stack;                           ///< Of several pools.
  struct {
    std::string path = "/run/nearkv/nearkv.sock";
    std::uint32_t mode = 0660;
  } socket;
  struct {
    std::uint32_t max = 256;
    std::uint64_t window_bytes = 1ULL << 30;       ///< Most of a client's data area.
    std::uint64_t registered_bytes = 64ULL << 30;  ///< Most that one client may register.
  } clients;
  unsigned workers = 0;  ///< Clients that copy at a time; 0: one for each core.
  std::string eviction = ObjectStore::Options().eviction;
  std::chrono::milliseconds patience{0};
  std::uint64_t scrub_bytes_per_s = 32ULL << 20;  ///< 0: none.
  struct {
    LogLevel level = LogLevel::kInfo;
    LogForm form = LogForm::kText;
  } log;
  struct {
    std::string address = "127.0.0.1";
    std::optional<std::uint16_t> port;  ///< None: no metrics; 0: the kernel's choice.
  } metrics;
  std::vector<TenantConfig> tenants;  ///< None: tenant 0, for whoever runs the daemon.
};

/// Reads a TOML text over what `config` holds. kBadArgument, with a reason that names file, line
/// and key and says what is allowed, for anything that is not a setting or not a value of it.
Status parse_config(const std::string& text, const std::string& file, ServerConfig* config,
                    std::string* reason);

/// parse_config() of a file; kIoError if it cannot be read.
Status read_config(const std::string& file, ServerConfig* config, std::string* reason);

}  // namespace nearkv
