#include "daemon/client/daemon_store.hpp"

#include <algorithm>
#include <cstring>

#include "daemon/wire/object_info.hpp"
#include "daemon/wire/stats.hpp"
#include "edge.hpp"
#include "object/process_bound_store.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kKeysAtATime = 1024;
constexpr std::size_t kInfosAtATime = 512;
constexpr unsigned kLifeShift = 48;  // A lease's number, and above it the daemon's life.

/// The leading keys that go into one call.
std::span<const Key> portion(const DaemonClient& client, std::span<const Key> keys,
                             std::size_t most) {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  while (count < keys.size() && count < most) {
    bytes += keys[count].size();
    if (count != 0 && !client.fits(count + 1, bytes)) break;
    ++count;
  }
  return keys.first(count);
}

template <typename Struct>
void append_all(const Reply& reply, std::vector<Struct>* to) {
  const std::size_t count =
      std::min<std::size_t>(reply.count, reply.result.size() / sizeof(Struct));
  for (std::size_t i = 0; i < count; ++i) {
    Struct wire{};
    std::memcpy(&wire, reply.result.data() + i * sizeof(wire), sizeof(wire));
    to->push_back(wire);
  }
}

/// Everything that an operation tells in portions, from the first on.
template <typename Struct>
Status fetch_all(DaemonClient* client, std::uint8_t operation, std::vector<Struct>* all) {
  while (true) {
    Call call;
    call.operation = operation;
    call.number = static_cast<std::uint32_t>(all->size());
    call.result_bytes = kInfosAtATime * sizeof(Struct);
    const Reply reply = client->call(call);
    if (reply.status != Status::kOk) return reply.status;
    append_all(reply, all);
    if (reply.count < kInfosAtATime) return Status::kOk;
  }
}

}  // namespace

Status ObjectStore::connect(const std::string& socket_path, const ClientOptions& options,
                            std::unique_ptr<ObjectStore>* store, std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::unique_ptr<DaemonClient> client;
    const Status status =
        DaemonClient::connect(socket_path, options, &client, reason != nullptr ? reason : &ignored);
    if (status != Status::kOk) return status;
    *store = ProcessBoundStore::make(std::make_unique<DaemonStore>(std::move(client)));
    return status;
  });
}

Status DaemonStore::open_namespace(const Namespace& name, std::uint32_t* number) {
  return at_edge([&] { return client_->open_namespace(name, number); });
}

Status DaemonStore::adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) {
  return at_edge([&] { return client_->adopt_namespace(info, number); });
}

Status DaemonStore::close_namespace(std::uint32_t number) {
  return at_edge([&] { return client_->close_namespace(number); });
}

Status DaemonStore::submit(const Job& job, JobId* id) {
  return at_edge([&] { return client_->submit(job, id); });
}

Status DaemonStore::wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) {
  return at_edge([&] { return client_->wait(id, timeout, result); });
}

Status DaemonStore::cancel(JobId id) {
  return at_edge([&] { return client_->cancel(id); });
}

Status DaemonStore::run(const Job& job, JobResult* result) {
  return at_edge([&] { return client_->run(job, result); });
}

std::size_t DaemonStore::exists(std::uint32_t namespace_number, std::span<const Key> keys,
                                std::span<bool> present) {
  std::ranges::fill(present, false);
  std::size_t leading = 0;
  std::size_t done = 0;
  while (done < keys.size() && (leading == done || !present.empty())) {
    const std::span<const Key> some = portion(*client_, keys.subspan(done), kKeysAtATime);
    Call call;
    call.operation = NKV_DAEMON_OPERATION_LOOK_UP;
    call.number = namespace_number;
    call.keys = some;
    call.result_bytes = present.empty() ? 0 : some.size();
    const Reply reply = client_->call(call);
    if (reply.status != Status::kOk) break;
    if (leading == done) leading += std::min<std::size_t>(reply.value, some.size());
    for (std::size_t i = 0; i < reply.result.size(); ++i) {
      present[done + i] = reply.result[i] != std::byte{0};
    }
    done += some.size();
  }
  return leading;
}

Status DaemonStore::describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_DESCRIBE_OBJECT;
  call.number = namespace_number;
  call.keys = std::span(&key, 1);
  call.result_bytes = sizeof(nkv_daemon_object_info);
  const Reply reply = client_->call(call);
  if (reply.status != Status::kOk) return reply.status;
  nkv_daemon_object_info wire{};
  std::memcpy(&wire, reply.result.data(), sizeof(wire));
  *info = from_wire(wire);
  info->namespace_number = namespace_number;
  return Status::kOk;
}

std::size_t DaemonStore::match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) {
  if (chain.empty()) return 0;
  Call call;
  call.operation = NKV_DAEMON_OPERATION_MATCH_PREFIX;
  call.number = namespace_number;
  // What does not fit a request is not looked for: the answer is a stored prefix all the same.
  call.keys = portion(*client_, chain, chain.size());
  const Reply reply = client_->call(call);
  return reply.status == Status::kOk ? reply.value : 0;
}

void DaemonStore::touch(std::uint32_t namespace_number, std::span<const Key> keys) {
  while (!keys.empty()) {
    Call call;
    call.operation = NKV_DAEMON_OPERATION_TOUCH;
    call.number = namespace_number;
    call.keys = portion(*client_, keys, kKeysAtATime);
    if (client_->call(call).status != Status::kOk) return;
    keys = keys.subspan(call.keys.size());
  }
}

LeaseId DaemonStore::pin(std::uint32_t namespace_number, std::span<const Key> keys,
                         std::chrono::nanoseconds duration, std::span<Status> statuses) {
  if (keys.empty()) return 0;
  Call call;
  call.operation = NKV_DAEMON_OPERATION_PIN;
  call.number = namespace_number;
  call.argument = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
  call.keys = keys;
  call.result_bytes = keys.size();
  const Reply reply = client_->call(call);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = reply.status == Status::kOk ? static_cast<Status>(reply.result[i]) : reply.status;
  }
  if (reply.status != Status::kOk || reply.value == 0) return 0;
  return reply.life << kLifeShift | reply.value;
}

Status DaemonStore::unpin(LeaseId lease) {
  // A daemon that has died has ended its leases; another one may use their numbers again.
  if (lease >> kLifeShift == 0) return Status::kNotFound;
  Call call;
  call.operation = NKV_DAEMON_OPERATION_UNPIN;
  call.life = lease >> kLifeShift;
  call.argument = lease & ((std::uint64_t{1} << kLifeShift) - 1);
  return client_->call(call).status;
}

Status DaemonStore::set_quota(std::uint16_t tenant, std::uint64_t bytes) {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_SET_QUOTA;
  call.number = tenant;
  call.argument = bytes;
  return client_->call(call).status;
}

Status DaemonStore::set_wipe(std::uint16_t tenant, bool wipe) {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_SET_WIPE;
  call.number = tenant;
  call.argument = wipe ? 1 : 0;
  return client_->call(call).status;
}

Status DaemonStore::store_stats(nkv_daemon_store_stats* stats) const {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_STATS;
  call.result_bytes = sizeof(*stats);
  const Reply reply = client_->call(call);
  if (reply.status == Status::kOk) std::memcpy(stats, reply.result.data(), sizeof(*stats));
  return reply.status;
}

ObjectStoreStats DaemonStore::stats() const {
  nkv_daemon_store_stats wire{};
  (void)store_stats(&wire);
  return nearkv::from_wire(wire);
}

Status DaemonStore::tier_infos(std::vector<nkv_daemon_store_stats>* tiers) const {
  return fetch_all(client_.get(), NKV_DAEMON_OPERATION_TIER_STATS, tiers);
}

std::vector<ObjectStoreStats> DaemonStore::tier_stats() const {
  std::vector<nkv_daemon_store_stats> tiers;
  (void)tier_infos(&tiers);
  std::vector<ObjectStoreStats> stats;
  stats.reserve(tiers.size());
  for (const nkv_daemon_store_stats& wire : tiers) stats.push_back(nearkv::from_wire(wire));
  return stats;
}

Status DaemonStore::watch(std::size_t most) {
  return at_edge([&] { return client_->watch(most); });
}

std::vector<StoreEvent> DaemonStore::take_events(std::uint64_t* missed) {
  return client_->take_events(missed);
}

Status DaemonStore::namespace_infos(std::vector<NamespaceInfo>* infos) const {
  std::vector<nkv_daemon_namespace_info> all;
  const Status status = fetch_all(client_.get(), NKV_DAEMON_OPERATION_NAMESPACES, &all);
  for (const nkv_daemon_namespace_info& wire : all) {
    const std::size_t bytes = std::min<std::size_t>(wire.text_bytes, sizeof(wire.text));
    NamespaceInfo info;
    info.number = wire.number;
    info.tenant = wire.tenant;
    info.users = wire.users;
    info.objects = wire.objects;
    info.text.assign(reinterpret_cast<const char*>(wire.text), bytes);
    std::ranges::copy(wire.digest, info.digest.begin());
    infos->push_back(std::move(info));
  }
  return status;
}

std::vector<NamespaceInfo> DaemonStore::namespaces() const {
  std::vector<NamespaceInfo> infos;
  (void)namespace_infos(&infos);
  return infos;
}

Status DaemonStore::object_infos(std::uint32_t first, std::size_t most,
                                 std::vector<ObjectInfo>* infos) const {
  while (infos->size() < most) {
    Call call;
    call.operation = NKV_DAEMON_OPERATION_LIST;
    call.number = first;
    call.items = static_cast<std::uint32_t>(std::min(most - infos->size(), kInfosAtATime));
    call.result_bytes = call.items * sizeof(nkv_daemon_object_info);
    const Reply reply = client_->call(call);
    if (reply.status != Status::kOk) return reply.status;
    std::vector<nkv_daemon_object_info> some;
    append_all(reply, &some);
    for (const nkv_daemon_object_info& wire : some) infos->push_back(from_wire(wire));
    if (some.size() < call.items) break;
    first = some.back().number + 1;
  }
  return Status::kOk;
}

std::vector<ObjectInfo> DaemonStore::list(std::uint32_t first, std::size_t most) const {
  std::vector<ObjectInfo> infos;
  (void)object_infos(first, most, &infos);
  return infos;
}

std::vector<ObjectInfo> DaemonStore::coldest(std::uint64_t bytes) {
  constexpr std::size_t kMostColdest = 16384;
  Call call;
  call.operation = NKV_DAEMON_OPERATION_COLDEST;
  call.argument = bytes;
  call.result_bytes = kMostColdest * sizeof(nkv_daemon_object_info);
  std::vector<nkv_daemon_object_info> wires;
  append_all(client_->call(call), &wires);
  std::vector<ObjectInfo> infos;
  infos.reserve(wires.size());
  for (const nkv_daemon_object_info& wire : wires) infos.push_back(from_wire(wire));
  return infos;
}

Status DaemonStore::verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_VERIFY;
  call.number = first;
  call.items = static_cast<std::uint32_t>(std::min<std::size_t>(most, 0xFFFFFFFF));
  call.result_bytes = sizeof(nkv_daemon_verify_progress);
  call.is_work = true;
  const Reply reply = client_->call(call);
  if (reply.status != Status::kOk) return reply.status;
  nkv_daemon_verify_progress wire{};
  std::memcpy(&wire, reply.result.data(), sizeof(wire));
  progress->next = wire.next;
  progress->objects += wire.objects;
  progress->bytes += wire.bytes;
  progress->damaged += wire.damaged;
  return Status::kOk;
}

Status DaemonStore::defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) {
  Call call;
  call.operation = NKV_DAEMON_OPERATION_DEFRAGMENT;
  call.argument = most_bytes;
  call.is_work = true;
  const Reply reply = client_->call(call);
  *moved_bytes = reply.value;
  return reply.status;
}

Status DaemonStore::tenant_infos(std::vector<nkv_daemon_tenant_info>* infos) const {
  return fetch_all(client_.get(), NKV_DAEMON_OPERATION_TENANTS, infos);
}

Status DaemonStore::client_infos(std::vector<nkv_daemon_client_info>* infos) const {
  return fetch_all(client_.get(), NKV_DAEMON_OPERATION_CLIENTS, infos);
}

std::vector<TenantUsage> DaemonStore::tenants() const {
  std::vector<nkv_daemon_tenant_info> infos;
  (void)tenant_infos(&infos);
  std::vector<TenantUsage> usages;
  usages.reserve(infos.size());
  for (const nkv_daemon_tenant_info& info : infos) {
    usages.push_back({info.number, info.used_bytes, info.quota_bytes});
  }
  return usages;
}

Status DaemonStore::allocate(std::size_t bytes, std::span<std::byte>* memory) {
  return at_edge([&] { return client_->allocate(bytes, memory); });
}

Status DaemonStore::release(std::span<std::byte> memory) {
  return at_edge([&] { return client_->release(memory); });
}

Status DaemonStore::register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset) {
  return at_edge([&] { return client_->register_memory(mapping, memfd, offset); });
}

Status DaemonStore::unregister_memory(std::span<std::byte> mapping) {
  return at_edge([&] { return client_->unregister_memory(mapping); });
}

}  // namespace nearkv
