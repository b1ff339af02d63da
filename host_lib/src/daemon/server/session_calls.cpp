// What a session answers at once.
#include <algorithm>
#include <cstring>

#include "daemon/server/results.hpp"
#include "daemon/server/session.hpp"
#include "daemon/wire/object_info.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kLongestLeaseNs = 365ULL * 24 * 3600 * 1'000'000'000;
constexpr std::size_t kMostLeases = 65536;  // Of one client.

}  // namespace

std::span<std::byte> Session::result_of(const Request& request) const {
  return window_.requests.subspan(request.submission.result_at, request.submission.result_bytes);
}

Session::Answer Session::call(const Request& request) {
  const nkv_daemon_submission& submission = request.submission;
  switch (submission.operation) {
    case NKV_DAEMON_OPERATION_CANCEL:
      return cancel(submission.argument);
    case NKV_DAEMON_OPERATION_LOOK_UP:
      return look_up(request);
    case NKV_DAEMON_OPERATION_DESCRIBE_OBJECT:
      return describe(request);
    case NKV_DAEMON_OPERATION_MATCH_PREFIX:
      return match_prefix(request);
    case NKV_DAEMON_OPERATION_TOUCH:
      return touch(request);
    case NKV_DAEMON_OPERATION_PIN:
      return pin(request);
    case NKV_DAEMON_OPERATION_UNPIN:
      return unpin(submission.argument);
    case NKV_DAEMON_OPERATION_OPEN_NAMESPACE:
      return open_namespace(request);
    case NKV_DAEMON_OPERATION_CLOSE_NAMESPACE:
      return close_namespace(submission.number);
    case NKV_DAEMON_OPERATION_WATCH:
      return watch(submission.argument);
    case NKV_DAEMON_OPERATION_TAKE_EVENTS:
      return take_events(request);
    default:
      break;
  }
  if (submission.operation < NKV_DAEMON_OPERATION_SET_QUOTA ||
      submission.operation > NKV_DAEMON_OPERATION_ADOPT_NAMESPACE) {
    return {Status::kBadOpcode};
  }
  const Status status = check_admin();
  return status == Status::kOk ? administer(request) : Answer{status};
}

Session::Answer Session::cancel(std::uint64_t tag) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    QueuedJob& job = *jobs_[i];
    if (job.request.submission.tag != tag) continue;
    std::fill(job.result.items.begin() + static_cast<std::ptrdiff_t>(job.next),
              job.result.items.end(), Status::kCancelled);
    finish_job(i);
    return {};
  }
  return {Status::kNotFound};
}

Session::Answer Session::look_up(const Request& request) {
  Status status = check(request.submission.number, kMayRead);
  if (status == Status::kOk) status = parse_keys(request, &keys_);
  const std::span<std::byte> result = result_of(request);
  if (status == Status::kOk && !result.empty() && result.size() < keys_.size()) {
    status = Status::kBadArgument;
  }
  if (status != Status::kOk) return {status};
  const bool each = !result.empty();
  const auto present = std::make_unique<bool[]>(each ? keys_.size() : 0);
  const std::size_t leading = context_.store->exists(request.submission.number, keys_,
                                                     {present.get(), each ? keys_.size() : 0});
  for (std::size_t i = 0; each && i < keys_.size(); ++i) result[i] = std::byte{present[i]};
  return {Status::kOk, leading};
}

Session::Answer Session::describe(const Request& request) {
  Status status = check(request.submission.number, kMayRead);
  if (status == Status::kOk) status = parse_keys(request, &keys_);
  if (status == Status::kOk && keys_.size() != 1) status = Status::kBadArgument;
  if (status != Status::kOk) return {status};
  ObjectInfo info;
  status = context_.store->describe(request.submission.number, keys_.front(), &info);
  return {status == Status::kOk ? put(result_of(request), to_wire(info)) : status};
}

Session::Answer Session::match_prefix(const Request& request) {
  Status status = check(request.submission.number, kMayRead);
  if (status == Status::kOk) status = parse_keys(request, &keys_);
  if (status != Status::kOk) return {status};
  return {Status::kOk, context_.store->match_prefix(request.submission.number, keys_)};
}

Session::Answer Session::touch(const Request& request) {
  Status status = check(request.submission.number, kMayRead);
  if (status == Status::kOk) status = parse_keys(request, &keys_);
  if (status == Status::kOk) context_.store->touch(request.submission.number, keys_);
  return {status};
}

Session::Answer Session::pin(const Request& request) {
  Status status = check(request.submission.number, kMayRead);
  if (status == Status::kOk) status = parse_keys(request, &keys_);
  const std::span<std::byte> result = result_of(request);
  if (status == Status::kOk && result.size() < keys_.size()) status = Status::kBadArgument;
  if (leases_.size() >= kMostLeases) forget_expired_leases();
  if (status == Status::kOk && leases_.size() >= kMostLeases) status = Status::kQuota;
  if (status != Status::kOk) return {status};
  const std::chrono::nanoseconds duration(
      std::min<std::uint64_t>(request.submission.argument, kLongestLeaseNs));
  std::vector<Status> statuses(keys_.size(), Status::kOk);
  const LeaseId lease = context_.store->pin(request.submission.number, keys_, duration, statuses);
  std::memcpy(result.data(), statuses.data(), statuses.size());
  if (lease != 0) leases_.emplace(lease, Clock::now() + duration);
  client_->leases.store(static_cast<std::uint32_t>(leases_.size()), std::memory_order_relaxed);
  return {Status::kOk, lease};
}

Session::Answer Session::unpin(LeaseId lease) {
  // Leases of others are none of this client's.
  if (leases_.erase(lease) == 0) return {Status::kNotFound};
  client_->leases.store(static_cast<std::uint32_t>(leases_.size()), std::memory_order_relaxed);
  return {context_.store->unpin(lease)};
}

void Session::forget_expired_leases() {
  const Clock::time_point now = Clock::now();
  std::erase_if(leases_, [&](const auto& lease) { return lease.second <= now; });
}

Session::Answer Session::open_namespace(const Request& request) {
  Namespace name;
  Status status = parse_namespace(request, &name);
  if (status != Status::kOk) return {status};
  const auto grant = std::ranges::find(grants_, name.tenant, &Grant::tenant);
  if (grant == grants_.end()) {
    grants_.front().counters->denials.fetch_add(1);
    return {Status::kDenied};
  }
  std::uint32_t number = 0;
  status = context_.store->open_namespace(name, &number);
  if (status == Status::kOk) add_namespace(number, *grant);
  return {status, number};
}

void Session::add_namespace(std::uint32_t number, const Grant& grant) {
  if (!namespaces_.emplace(number, grant).second) (void)context_.store->close_namespace(number);
  context_.events->add_namespace(&watcher_, number);
}

Session::Answer Session::close_namespace(std::uint32_t number) {
  if (namespaces_.erase(number) == 0) return {Status::kNotFound};
  context_.events->remove_namespace(&watcher_, number);
  return {context_.store->close_namespace(number)};
}

Session::Answer Session::watch(std::uint64_t most) {
  return {context_.events->watch(&watcher_, most)};
}

Session::Answer Session::take_events(const Request& request) {
  const std::span<std::byte> result = result_of(request);
  std::uint64_t missed = 0;
  const std::vector<StoreEvent> events =
      context_.events->take(&watcher_, result.size() / sizeof(nkv_daemon_event), &missed);
  const auto as_wire = [](const StoreEvent& event) {
    nkv_daemon_event wire{};
    wire.kind = static_cast<std::uint8_t>(event.kind);
    wire.key_bytes = static_cast<std::uint8_t>(std::min(event.key.size(), sizeof(wire.key)));
    wire.key_is_digest = event.key_is_digest ? 1 : 0;
    wire.tier = event.tier;
    wire.namespace_number = event.namespace_number;
    wire.bytes = event.bytes;
    std::memcpy(wire.key, event.key.data(), wire.key_bytes);
    return wire;
  };
  return {Status::kOk, missed, put_all<nkv_daemon_event>(result, events, 0, as_wire)};
}

}  // namespace nearkv
