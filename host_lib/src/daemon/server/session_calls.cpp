// What a session answers at once.
#include <algorithm>
#include <cstring>

#include "daemon/server/session.hpp"
#include "daemon/wire/stats.hpp"

namespace nearkv {
namespace {

constexpr std::uint64_t kLongestLeaseNs = 365ULL * 24 * 3600 * 1'000'000'000;
constexpr std::size_t kMostLeases = 65536;    // Of one client.
constexpr std::uint32_t kVerifyRecords = 16;  // In one call; others of this client wait.
constexpr std::uint64_t kDefragmentBytes = 64 << 20;

/// Copies structures to a result, as many as fit; gives how many.
template <typename Struct, typename List, typename Convert>
std::uint32_t put_all(std::span<std::byte> result, const List& list, std::size_t first,
                      Convert convert) {
  std::uint32_t count = 0;
  for (std::size_t i = first; i < list.size() && result.size() >= sizeof(Struct); ++i) {
    const Struct wire = convert(list[i]);
    std::memcpy(result.data(), &wire, sizeof(wire));
    result = result.subspan(sizeof(wire));
    ++count;
  }
  return count;
}

template <typename Struct>
Status put(std::span<std::byte> result, const Struct& wire) {
  if (result.size() < sizeof(wire)) return Status::kBadArgument;
  std::memcpy(result.data(), &wire, sizeof(wire));
  return Status::kOk;
}

nkv_daemon_namespace_info to_wire(const NamespaceInfo& info) {
  nkv_daemon_namespace_info wire{};
  wire.number = info.number;
  wire.tenant = info.tenant;
  wire.text_bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(info.text.size(), sizeof(wire.text)));
  std::memcpy(wire.text, info.text.data(), wire.text_bytes);
  return wire;
}

nkv_daemon_object_info to_wire(const ObjectInfo& info) {
  nkv_daemon_object_info wire{};
  wire.number = info.number;
  wire.namespace_number = info.namespace_number;
  wire.bytes = info.bytes;
  wire.tenant = info.tenant;
  wire.parts = info.parts;
  wire.generation = info.generation;
  wire.created_s = info.created_s;
  wire.expires_s = info.expires_s;
  wire.extents = info.extents;
  wire.key_bytes = static_cast<std::uint8_t>(std::min(info.key.size(), sizeof(wire.key)));
  wire.key_is_digest = info.key_is_digest ? 1 : 0;
  wire.leased = info.leased ? 1 : 0;
  std::memcpy(wire.key, info.key.data(), wire.key_bytes);
  return wire;
}

nkv_daemon_client_info to_wire(const std::shared_ptr<ClientStatus>& client) {
  nkv_daemon_client_info wire{};
  wire.process_id = client->process;
  wire.user_id = client->user;
  wire.tenant = client->tenant;
  wire.leases = client->leases;
  wire.queued_jobs = client->queued_jobs;
  wire.regions = client->regions;
  wire.requests = client->requests;
  wire.copied_bytes = client->copied_bytes;
  wire.connected_s = client->connected_s;
  return wire;
}

nkv_daemon_tenant_info to_wire(const ServerTenants::Tenant& tenant,
                               const std::vector<TenantUsage>& usages) {
  nkv_daemon_tenant_info wire{};
  wire.number = tenant.config.number;
  wire.clients = tenant.counters.clients;
  const auto usage = std::ranges::find(usages, tenant.config.number, &TenantUsage::tenant);
  wire.used_bytes = usage != usages.end() ? usage->used_bytes : 0;
  wire.quota_bytes = usage != usages.end() ? usage->quota_bytes : ~std::uint64_t{0};
  wire.sets = tenant.counters.sets;
  wire.set_bytes = tenant.counters.set_bytes;
  wire.hits = tenant.counters.hits;
  wire.get_bytes = tenant.counters.get_bytes;
  wire.misses = tenant.counters.misses;
  wire.denials = tenant.counters.denials;
  std::memcpy(wire.name, tenant.config.name.data(),
              std::min(tenant.config.name.size(), sizeof(wire.name)));
  return wire;
}

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
    default:
      break;
  }
  if (submission.operation < NKV_DAEMON_OPERATION_SET_QUOTA ||
      submission.operation > NKV_DAEMON_OPERATION_SET_WIPE) {
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
  if (status == Status::kOk) namespaces_.emplace(number, *grant);
  return {status, number};
}

Session::Answer Session::administer(const Request& request) {
  const nkv_daemon_submission& submission = request.submission;
  const std::span<std::byte> result = result_of(request);
  ObjectStore& store = *context_.store;
  const auto as_wire = [](const auto& info) { return to_wire(info); };
  switch (submission.operation) {
    case NKV_DAEMON_OPERATION_SET_QUOTA:
      if (submission.number > 0xFFFF) return {Status::kBadArgument};
      return {store.set_quota(static_cast<std::uint16_t>(submission.number), submission.argument)};
    case NKV_DAEMON_OPERATION_SET_WIPE:
      if (submission.number > 0xFFFF) return {Status::kBadArgument};
      return {
          store.set_wipe(static_cast<std::uint16_t>(submission.number), submission.argument != 0)};
    case NKV_DAEMON_OPERATION_STATS: {
      nkv_daemon_store_stats wire = to_wire(store.stats());
      wire.scrubbed_bytes = context_.counters->scrubbed_bytes;
      wire.clients = context_.clients->all().size();
      return {put(result, wire)};
    }
    case NKV_DAEMON_OPERATION_NAMESPACES:
      return {Status::kOk, 0,
              put_all<nkv_daemon_namespace_info>(result, store.namespaces(), submission.number,
                                                 as_wire)};
    case NKV_DAEMON_OPERATION_LIST: {
      const std::size_t most =
          std::min<std::size_t>(submission.items, result.size() / sizeof(nkv_daemon_object_info));
      return {
          Status::kOk, 0,
          put_all<nkv_daemon_object_info>(result, store.list(submission.number, most), 0, as_wire)};
    }
    case NKV_DAEMON_OPERATION_VERIFY: {
      VerifyProgress progress;
      const Status status =
          store.verify(submission.number, std::min(submission.items, kVerifyRecords), &progress);
      nkv_daemon_verify_progress wire{};
      wire.next = progress.next;
      wire.objects = progress.objects;
      wire.bytes = progress.bytes;
      wire.damaged = progress.damaged;
      return {status == Status::kOk ? put(result, wire) : status};
    }
    case NKV_DAEMON_OPERATION_DEFRAGMENT: {
      std::uint64_t moved_bytes = 0;
      const Status status =
          store.defragment(std::min(submission.argument, kDefragmentBytes), &moved_bytes);
      return {status, moved_bytes};
    }
    case NKV_DAEMON_OPERATION_TENANTS: {
      const std::vector<TenantUsage> usages = store.tenants();
      const auto usage_as_wire = [&](const auto& tenant) { return to_wire(*tenant, usages); };
      return {Status::kOk, 0,
              put_all<nkv_daemon_tenant_info>(result, context_.tenants->all(), submission.number,
                                              usage_as_wire)};
    }
    default:  // CLIENTS
      return {Status::kOk, 0,
              put_all<nkv_daemon_client_info>(result, context_.clients->all(), submission.number,
                                              as_wire)};
  }
}

}  // namespace nearkv
