// What a daemon does when nobody asks: looks for damage, lets leases run out, and keeps what
// clients watch from being too much for the store.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "daemon/server/log.hpp"
#include "daemon/server/session.hpp"

namespace nearkv {

/// Reads all objects, over and over, at a rate of bytes per second. Everything that it is given
/// must outlive it.
class Janitor {
 public:
  Janitor(const SessionContext& context, std::uint64_t scrub_bytes_per_s, const Log* log);
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  /// Finishes the object that is being read.
  ~Janitor();

 private:
  void work();
  /// Reads an object; gives how long its bytes may take.
  [[nodiscard]] std::chrono::nanoseconds scrub();

  SessionContext context_;
  std::uint64_t scrub_bytes_per_s_;
  const Log* log_;
  std::uint32_t next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nearkv
