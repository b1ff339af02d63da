// An object store in this process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/memory.hpp"
#include "nearkv/object_store.hpp"
#include "object/compactor.hpp"
#include "object/job_queue.hpp"
#include "object/objects.hpp"

namespace nearkv {

/// Objects of a pool and the threads that work on them.
class LocalStore final : public ObjectStore {
 public:
  /// Takes up the objects in `pool`, which may hold sequences too.
  static Status open(std::shared_ptr<PoolMemory> pool, const Options& options,
                     std::unique_ptr<ObjectStore>* store, std::string* reason);

  /// The same with payload elsewhere than in the pool's memory.
  static Status open(std::shared_ptr<PoolMemory> pool, std::unique_ptr<Payload> payload,
                     const Options& options, std::unique_ptr<ObjectStore>* store,
                     std::string* reason);

  Status open_namespace(const Namespace& name, std::uint32_t* number) override;
  Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) override;
  Status close_namespace(std::uint32_t number) override;
  Status limit_namespaces(std::uint16_t tenant, std::uint32_t most) override;
  Status submit(const Job& job, JobId* id) override;
  [[nodiscard]] int event_fd() const override { return jobs_.event_fd(); }
  std::vector<JobResult> drain() override;
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
  [[nodiscard]] std::vector<NamespaceInfo> namespaces() const override;
  Status describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) override;
  std::vector<ObjectInfo> coldest(std::uint64_t bytes) override;
  std::vector<ObjectInfo> list(std::uint32_t first, std::size_t most) const override;
  Status verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) override;
  Status defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) override;
  [[nodiscard]] std::vector<TenantUsage> tenants() const override;
  Status allocate(std::size_t bytes, std::span<std::byte>* memory) override;
  Status release(std::span<std::byte> memory) override;
  // All memory of this process is as near as any other.
  Status register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset) override;
  Status unregister_memory(std::span<std::byte> mapping) override;

 private:
  LocalStore(std::unique_ptr<Objects> objects, const Options& options);

  [[nodiscard]] Status check(const Job& job) const;

  std::unique_ptr<Objects> objects_;
  std::optional<Compactor> compactor_;
  std::mutex memory_mutex_;
  std::map<std::byte*, Memory> lent_;
  std::map<std::byte*, std::size_t> registered_;
  /// Last: its jobs end before the memory goes that they copy, and the compactor that they tell
  /// what comes and goes.
  JobQueue jobs_;
};

}  // namespace nearkv
