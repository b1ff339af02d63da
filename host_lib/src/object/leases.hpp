// Who keeps which objects, and until when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "nearkv/object_store.hpp"
#include "object/object_id.hpp"

namespace nearkv {

/// Leases end when they are ended or when their time is over, by a clock that never jumps.
/// Thread safety: all calls.
class Leases {
 public:
  using Clock = std::chrono::steady_clock;

  LeaseId add(std::vector<ObjectId> objects, Clock::time_point deadline);

  /// What the lease kept; nothing if it has ended.
  std::optional<std::vector<ObjectId>> end(LeaseId lease);

  /// Ends all leases that are over by `now`; gives what they kept.
  std::vector<ObjectId> end_expired(Clock::time_point now);

  [[nodiscard]] std::size_t size() const;

 private:
  struct Lease {
    std::vector<ObjectId> objects;
    Clock::time_point deadline;
  };

  mutable std::mutex mutex_;
  std::map<LeaseId, Lease> leases_;
  std::set<std::pair<Clock::time_point, LeaseId>> by_deadline_;
  LeaseId next_ = 1;
};

}  // namespace nearkv
