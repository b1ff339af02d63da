// A store that answers in the process that opened it, and in no other.
#pragma once

#include <algorithm>
#include <memory>

#include "forks.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv {

/// In a process that fork() made, calls end with kForked or find nothing, without touching what the
/// parent still uses; destroying it leaves all as it is. Otherwise it is the store that it holds.
class ProcessBoundStore final : public ObjectStore {
 public:
  [[nodiscard]] static std::unique_ptr<ObjectStore> make(std::unique_ptr<ObjectStore> store) {
    return std::make_unique<ProcessBoundStore>(std::move(store));
  }
  explicit ProcessBoundStore(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}
  ~ProcessBoundStore() override {
    if (is_here()) return;
    [[maybe_unused]] ObjectStore* const parents = store_.release();
  }

  Status open_namespace(const Namespace& name, std::uint32_t* number) override {
    return is_here() ? store_->open_namespace(name, number) : Status::kForked;
  }
  Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) override {
    return is_here() ? store_->adopt_namespace(info, number) : Status::kForked;
  }
  Status close_namespace(std::uint32_t number) override {
    return is_here() ? store_->close_namespace(number) : Status::kForked;
  }
  Status limit_namespaces(std::uint16_t tenant, std::uint32_t most) override {
    return is_here() ? store_->limit_namespaces(tenant, most) : Status::kForked;
  }
  Status submit(const Job& job, JobId* id) override {
    return is_here() ? store_->submit(job, id) : Status::kForked;
  }
  [[nodiscard]] int event_fd() const override { return is_here() ? store_->event_fd() : -1; }
  std::vector<JobResult> drain() override {
    return is_here() ? store_->drain() : std::vector<JobResult>{};
  }
  Status wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) override {
    return is_here() ? store_->wait(id, timeout, result) : Status::kForked;
  }
  Status cancel(JobId id) override { return is_here() ? store_->cancel(id) : Status::kForked; }
  Status run(const Job& job, JobResult* result) override {
    return is_here() ? store_->run(job, result) : Status::kForked;
  }
  std::size_t exists(std::uint32_t namespace_number, std::span<const Key> keys,
                     std::span<bool> present) override {
    if (is_here()) return store_->exists(namespace_number, keys, present);
    std::ranges::fill(present, false);
    return 0;
  }
  std::size_t match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) override {
    return is_here() ? store_->match_prefix(namespace_number, chain) : 0;
  }
  void touch(std::uint32_t namespace_number, std::span<const Key> keys) override {
    if (is_here()) store_->touch(namespace_number, keys);
  }
  LeaseId pin(std::uint32_t namespace_number, std::span<const Key> keys,
              std::chrono::nanoseconds duration, std::span<Status> statuses) override {
    if (is_here()) return store_->pin(namespace_number, keys, duration, statuses);
    std::ranges::fill(statuses, Status::kForked);
    return 0;
  }
  Status unpin(LeaseId lease) override {
    return is_here() ? store_->unpin(lease) : Status::kForked;
  }
  Status set_quota(std::uint16_t tenant, std::uint64_t bytes) override {
    return is_here() ? store_->set_quota(tenant, bytes) : Status::kForked;
  }
  Status set_wipe(std::uint16_t tenant, bool wipe) override {
    return is_here() ? store_->set_wipe(tenant, wipe) : Status::kForked;
  }
  Status watch(std::size_t most) override {
    return is_here() ? store_->watch(most) : Status::kForked;
  }
  std::vector<StoreEvent> take_events(std::uint64_t* missed) override {
    if (is_here()) return store_->take_events(missed);
    *missed = 0;
    return {};
  }
  [[nodiscard]] ObjectStoreStats stats() const override {
    return is_here() ? store_->stats() : ObjectStoreStats{};
  }
  [[nodiscard]] std::vector<ObjectStoreStats> tier_stats() const override {
    return is_here() ? store_->tier_stats() : std::vector<ObjectStoreStats>{};
  }
  [[nodiscard]] std::vector<NamespaceInfo> namespaces() const override {
    return is_here() ? store_->namespaces() : std::vector<NamespaceInfo>{};
  }
  std::vector<ObjectInfo> list(std::uint32_t first, std::size_t most) const override {
    return is_here() ? store_->list(first, most) : std::vector<ObjectInfo>{};
  }
  Status describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) override {
    return is_here() ? store_->describe(namespace_number, key, info) : Status::kForked;
  }
  std::vector<ObjectInfo> coldest(std::uint64_t bytes) override {
    return is_here() ? store_->coldest(bytes) : std::vector<ObjectInfo>{};
  }
  Status verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) override {
    return is_here() ? store_->verify(first, most, progress) : Status::kForked;
  }
  Status defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) override {
    return is_here() ? store_->defragment(most_bytes, moved_bytes) : Status::kForked;
  }
  [[nodiscard]] std::vector<TenantUsage> tenants() const override {
    return is_here() ? store_->tenants() : std::vector<TenantUsage>{};
  }
  Status allocate(std::size_t bytes, std::span<std::byte>* memory) override {
    return is_here() ? store_->allocate(bytes, memory) : Status::kForked;
  }
  Status release(std::span<std::byte> memory) override {
    return is_here() ? store_->release(memory) : Status::kForked;
  }
  Status register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset) override {
    return is_here() ? store_->register_memory(mapping, memfd, offset) : Status::kForked;
  }
  Status unregister_memory(std::span<std::byte> mapping) override {
    return is_here() ? store_->unregister_memory(mapping) : Status::kForked;
  }

 private:
  [[nodiscard]] bool is_here() const { return fork_count() == forks_; }

  std::unique_ptr<ObjectStore> store_;
  std::uint64_t forks_ = fork_count();
};

}  // namespace nearkv
