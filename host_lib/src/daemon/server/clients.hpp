// Who is connected, for those who may know.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace nearkv {

/// One client, as others see it. Written by its own thread, read by any.
struct ClientStatus {
  std::uint32_t process = 0;
  std::uint32_t user = 0;
  std::uint16_t tenant = 0;
  std::uint64_t connected_s = 0;  ///< Since 1970.
  std::atomic<std::uint32_t> leases{0};
  std::atomic<std::uint32_t> queued_jobs{0};
  std::atomic<std::uint32_t> regions{1};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> copied_bytes{0};
};

/// Thread safety: all calls.
class ClientList {
 public:
  void add(std::shared_ptr<ClientStatus> client) {
    const std::scoped_lock lock(mutex_);
    clients_.push_back(std::move(client));
  }
  void remove(const std::shared_ptr<ClientStatus>& client) {
    const std::scoped_lock lock(mutex_);
    std::erase(clients_, client);
  }
  [[nodiscard]] std::vector<std::shared_ptr<ClientStatus>> all() const {
    const std::scoped_lock lock(mutex_);
    return clients_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ClientStatus>> clients_;
};

}  // namespace nearkv
