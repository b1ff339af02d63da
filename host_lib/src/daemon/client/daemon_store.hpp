// An object store in another process.
#pragma once

#include <memory>
#include <vector>

#include "daemon/client/daemon_client.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv {

/// A client as a store. Where a call has no way to say that the daemon is gone or refuses, it finds
/// nothing.
class DaemonStore final : public ObjectStore {
 public:
  explicit DaemonStore(std::unique_ptr<DaemonClient> client) : client_(std::move(client)) {}

  Status open_namespace(const Namespace& name, std::uint32_t* number) override;
  Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) override;
  Status close_namespace(std::uint32_t number) override;
  Status submit(const Job& job, JobId* id) override;
  [[nodiscard]] int event_fd() const override { return client_->event_fd(); }
  std::vector<JobResult> drain() override { return client_->drain(); }
  Status wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) override;
  Status cancel(JobId id) override;
  Status run(const Job& job, JobResult* result) override;
  std::size_t exists(std::uint32_t namespace_number, std::span<const Key> keys,
                     std::span<bool> present) override;
  std::size_t match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) override;
  void touch(std::uint32_t namespace_number, std::span<const Key> keys) override;
  LeaseId pin(std::uint32_t namespace_number, std::span<const Key> keys,
              std::chrono::nanoseconds duration, std::span<Status> statuses) override;
  Status unpin(LeaseId lease) override;
  Status set_quota(std::uint16_t tenant, std::uint64_t bytes) override;
  Status set_wipe(std::uint16_t tenant, bool wipe) override;
  Status watch(std::size_t most) override;
  std::vector<StoreEvent> take_events(std::uint64_t* missed) override;
  [[nodiscard]] ObjectStoreStats stats() const override;
  [[nodiscard]] std::vector<ObjectStoreStats> tier_stats() const override;
  [[nodiscard]] std::vector<NamespaceInfo> namespaces() const override;
  std::vector<ObjectInfo> list(std::uint32_t first, std::size_t most) const override;
  Status describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) override;
  std::vector<ObjectInfo> coldest(std::uint64_t bytes) override;
  Status verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) override;
  Status defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) override;
  [[nodiscard]] std::vector<TenantUsage> tenants() const override;
  Status allocate(std::size_t bytes, std::span<std::byte>* memory) override;
  Status release(std::span<std::byte> memory) override;
  Status register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset) override;
  Status unregister_memory(std::span<std::byte> mapping) override;

  // What only a daemon knows; for its tools. kDenied without the permission admin.
  Status tenant_infos(std::vector<nkv_daemon_tenant_info>* infos) const;
  Status client_infos(std::vector<nkv_daemon_client_info>* infos) const;
  Status store_stats(nkv_daemon_store_stats* stats) const;
  Status tier_infos(std::vector<nkv_daemon_store_stats>* tiers) const;
  Status namespace_infos(std::vector<NamespaceInfo>* infos) const;
  Status object_infos(std::uint32_t first, std::size_t most, std::vector<ObjectInfo>* infos) const;

 private:
  std::unique_ptr<DaemonClient> client_;
};

}  // namespace nearkv
