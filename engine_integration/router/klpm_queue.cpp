#include "klpm_queue.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "edge.hpp"

namespace nearkv::router {

Status KlpmQueue::push(WaitingRequest request) {
  return at_edge([&] {
    if (std::ranges::find(waiting_, request.id, &WaitingRequest::id) != waiting_.end()) {
      return Status::kExists;
    }
    if (waiting_.size() >= most_) return Status::kPoolFull;
    lift(request.tenant);
    waiting_.push_back(std::move(request));
    return Status::kOk;
  });
}

Status KlpmQueue::pop(const Measure& measure, WaitingRequest* request) {
  return at_edge([&] {
    if (waiting_.empty()) return Status::kNotFound;
    const std::size_t next = turn_ == 0 ? fairest() : longest(measure);
    turn_ = (turn_ + 1) % k_;
    *request = std::move(waiting_[next]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(next));
    given_[request->tenant] += request->blocks;
    return Status::kOk;
  });
}

Status KlpmQueue::erase(std::uint64_t id) {
  const auto found = std::ranges::find(waiting_, id, &WaitingRequest::id);
  if (found == waiting_.end()) return Status::kNotFound;
  waiting_.erase(found);
  return Status::kOk;
}

std::size_t KlpmQueue::fairest() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < waiting_.size(); ++i) {
    if (given_.at(waiting_[i].tenant) < given_.at(waiting_[best].tenant)) best = i;
  }
  return best;
}

std::size_t KlpmQueue::longest(const Measure& measure) const {
  std::size_t best = 0;
  std::uint32_t most = measure(waiting_[0]);
  for (std::size_t i = 1; i < waiting_.size(); ++i) {
    const std::uint32_t blocks = measure(waiting_[i]);
    if (blocks <= most) continue;
    best = i;
    most = blocks;
  }
  return best;
}

void KlpmQueue::lift(const std::string& tenant) {
  if (std::ranges::find(waiting_, tenant, &WaitingRequest::tenant) != waiting_.end()) return;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const WaitingRequest& each : waiting_) least = std::min(least, given_.at(each.tenant));
  // Who does not wait is forgotten, so that tenants who come once cost nothing.
  if (waiting_.empty()) {
    least = given_.contains(tenant) ? given_.at(tenant) : 0;
    given_.clear();
  }
  std::uint64_t& given = given_[tenant];
  given = std::max(given, least);
}

}  // namespace nearkv::router
