// Who may do what: tenants of a daemon, and what their clients have done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/wire/packet_socket.hpp"

namespace nearkv {

/// What a tenant's clients may do; a set of bits.
enum Permission : std::uint8_t {
  kMayRead = 1,   ///< Get, exists, match, touch, pin.
  kMayWrite = 2,  ///< Set.
  kMayErase = 4,
  kMayAdminister = 8,  ///< Look at, verify and move everybody's objects; set quotas.
};

/// A tenant, as the configuration has it.
struct TenantConfig {
  std::uint16_t number = 0;
  std::string name;
  std::vector<std::uint32_t> uids;
  std::vector<std::uint32_t> gids;
  std::optional<std::uint64_t> quota_bytes;
  std::uint8_t permissions = kMayRead | kMayWrite | kMayErase;
  std::optional<std::uint32_t> max_clients;
  std::optional<std::uint32_t> max_namespaces;  ///< None: an equal share of what the pool holds.
};

/// What the clients of one tenant have done. Counted by many threads.
struct TenantCounters {
  std::atomic<std::uint32_t> clients{0};
  std::atomic<std::uint64_t> sets{0};
  std::atomic<std::uint64_t> set_bytes{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> get_bytes{0};
  std::atomic<std::uint64_t> misses{0};
  std::atomic<std::uint64_t> denials{0};
};

/// A tenant that a client may use, and how.
struct Grant {
  std::uint16_t tenant = 0;
  std::uint8_t permissions = 0;
  TenantCounters* counters = nullptr;
};

/// The tenants of a daemon; they do not change while it runs. Thread safety: all calls.
class ServerTenants {
 public:
  struct Tenant {
    TenantConfig config;
    TenantCounters counters;
  };

  explicit ServerTenants(const std::vector<TenantConfig>& configs);

  /// What a peer may do, by its user and groups; nothing if it is nobody's. The first tenant that
  /// names it is the one that its connection counts for.
  [[nodiscard]] std::vector<Grant> grants_of(const Peer& peer);

  /// Counts a client in, unless its tenant has as many as it may.
  [[nodiscard]] bool connect(const Grant& grant);
  void disconnect(const Grant& grant);

  [[nodiscard]] const std::vector<std::unique_ptr<Tenant>>& all() const { return tenants_; }

 private:
  std::vector<std::unique_ptr<Tenant>> tenants_;
};

}  // namespace nearkv
