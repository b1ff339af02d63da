#include "object/leases.hpp"

namespace nearkv {

LeaseId Leases::add(std::vector<ObjectId> objects, Clock::time_point deadline) {
  const std::scoped_lock lock(mutex_);
  const LeaseId id = next_++;
  leases_.emplace(id, Lease{std::move(objects), deadline});
  by_deadline_.emplace(deadline, id);
  return id;
}

std::optional<std::vector<ObjectId>> Leases::end(LeaseId lease) {
  const std::scoped_lock lock(mutex_);
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return std::nullopt;
  std::vector<ObjectId> objects = std::move(found->second.objects);
  by_deadline_.erase({found->second.deadline, lease});
  leases_.erase(found);
  return objects;
}

std::vector<ObjectId> Leases::end_expired(Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  std::vector<ObjectId> objects;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const auto lease = leases_.find(by_deadline_.begin()->second);
    objects.insert(objects.end(), lease->second.objects.begin(), lease->second.objects.end());
    leases_.erase(lease);
    by_deadline_.erase(by_deadline_.begin());
  }
  return objects;
}

std::size_t Leases::size() const {
  const std::scoped_lock lock(mutex_);
  return leases_.size();
}

}  // namespace nearkv
