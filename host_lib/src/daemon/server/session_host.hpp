// What all sessions of one store share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <semaphore>
#include <vector>

#include "daemon/server/session.hpp"

namespace nearkv {

/// Owns it, and says where it is. Thread safety: all calls.
class SessionHost {
 public:
  /// `store` outlives this. `copiers`: sessions that may copy at a time.
  SessionHost(ObjectStore* store, const std::vector<TenantConfig>& tenants, std::ptrdiff_t copiers)
      : tenants_(tenants),
        events_(store),
        copying_(copiers),
        context_{store, &tenants_, &clients_, &events_, &counters_, &copying_} {}
  SessionHost(const SessionHost&) = delete;
  SessionHost& operator=(const SessionHost&) = delete;

  /// For sessions, metrics and whoever else looks at them; valid as long as this is.
  [[nodiscard]] const SessionContext& context() const { return context_; }

 private:
  ServerTenants tenants_;
  ClientList clients_;
  EventHub events_;
  ServerCounters counters_;
  std::counting_semaphore<> copying_;
  SessionContext context_;
};

}  // namespace nearkv
