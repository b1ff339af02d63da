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
    const std::optional<std::size_t> next = turn_ == 0 ? fairest(measure) : longest(measure);
    if (!next) return Status::kNotFound;
    turn_ = (turn_ + 1) % k_;
    *request = std::move(waiting_[*next]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(*next));
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

std::optional<std::size_t> KlpmQueue::fairest(const Measure& measure) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (best && given_.at(waiting_[i].tenant) >= given_.at(waiting_[*best].tenant)) continue;
    if (measure(waiting_[i])) best = i;
  }
  return best;
}

std::optional<std::size_t> KlpmQueue::longest(const Measure& measure) const {
  std::optional<std::size_t> best;
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const std::optional<std::uint32_t> blocks = measure(waiting_[i]);
    if (!blocks || (best && *blocks <= most)) continue;
    best = i;
    most = *blocks;
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
