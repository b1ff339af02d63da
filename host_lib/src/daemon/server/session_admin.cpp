// What a session answers administrators.
#include <algorithm>
#include <cstring>

#include "daemon/server/results.hpp"
#include "daemon/server/session.hpp"
#include "daemon/wire/object_info.hpp"
#include "daemon/wire/stats.hpp"

namespace nearkv {
namespace {

constexpr std::uint32_t kVerifyRecords = 16;  // In one call; others of this client wait.
constexpr std::uint64_t kDefragmentBytes = 64 << 20;

nkv_daemon_namespace_info to_wire(const NamespaceInfo& info) {
  nkv_daemon_namespace_info wire{};
  wire.number = info.number;
  wire.tenant = info.tenant;
  wire.users = info.users;
  wire.objects = info.objects;
  wire.text_bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(info.text.size(), sizeof(wire.text)));
  std::ranges::copy(info.digest, wire.digest);
  std::memcpy(wire.text, info.text.data(), wire.text_bytes);
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

Session::Answer Session::administer(const Request& request) {
  const nkv_daemon_submission& submission = request.submission;
  const std::span<std::byte> result = result_of(request);
  ObjectStore& store = *context_.store;
  const auto as_wire = [](const auto& info) { return to_wire(info); };
  const auto object_as_wire = [](const ObjectInfo& info) { return nearkv::to_wire(info); };
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
      return {Status::kOk, 0,
              put_all<nkv_daemon_object_info>(result, store.list(submission.number, most), 0,
                                              object_as_wire)};
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
    case NKV_DAEMON_OPERATION_TIER_STATS: {
      const auto stats_as_wire = [](const ObjectStoreStats& stats) {
        return nearkv::to_wire(stats);
      };
      return {Status::kOk, 0,
              put_all<nkv_daemon_store_stats>(result, store.tier_stats(), submission.number,
                                              stats_as_wire)};
    }
    case NKV_DAEMON_OPERATION_COLDEST:
      return {Status::kOk, 0,
              put_all<nkv_daemon_object_info>(result, store.coldest(submission.argument), 0,
                                              object_as_wire)};
    case NKV_DAEMON_OPERATION_ADOPT_NAMESPACE:
      return adopt_namespace(request);
    default:  // CLIENTS
      return {Status::kOk, 0,
              put_all<nkv_daemon_client_info>(result, context_.clients->all(), submission.number,
                                              as_wire)};
  }
}

Session::Answer Session::adopt_namespace(const Request& request) {
  NamespaceInfo info;
  Status status = parse_namespace_info(request, &info);
  if (status != Status::kOk) return {status};
  std::uint32_t number = 0;
  status = context_.store->adopt_namespace(info, &number);
  if (status != Status::kOk) return {status};
  // What is nobody's of this client it uses as the administrator that it is.
  auto grant = std::ranges::find(grants_, info.tenant, &Grant::tenant);
  if (grant == grants_.end()) {
    grant = std::ranges::find_if(
        grants_, [](const Grant& any) { return (any.permissions & kMayAdminister) != 0; });
  }
  add_namespace(number, *grant);
  return {Status::kOk, number};
}

}  // namespace nearkv
