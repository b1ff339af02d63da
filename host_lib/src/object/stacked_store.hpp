// Tiers on top of each other: fast and small above slow and large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nearkv/object_store.hpp"
#include "object/hotness.hpp"
#include "object/job_queue.hpp"
#include "object/shared_mutex.hpp"
#include "object/tier_mover.hpp"

namespace nearkv {

/// Objects are set in the first tier and found in any. A tier that fills up hands its coldest
/// objects down (TierMover); an object that is found below often enough is copied to the first.
///
/// An object may be in several tiers at once, always with the same contents: what replaces or
/// erases it does so from the last tier up, so that no older copy can outlive a newer one, and not
/// at all while a copy is leased. Where a tier below cannot be reached (it may be on another
/// machine), nothing is erased or replaced, and all else goes on without it. Only a set that does
/// not overwrite looks no farther than the first tier (ObjectStore::stack).
class StackedStore final : public ObjectStore {
 public:
  using Tiers = std::vector<std::unique_ptr<ObjectStore>>;

  /// `tiers` are as they were where it fails.
  static Status open(Tiers&& tiers, const StackOptions& options,
                     std::unique_ptr<ObjectStore>* store, std::string* reason);

  Status open_namespace(const Namespace& name, std::uint32_t* number) override;
  Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) override;
  Status close_namespace(std::uint32_t number) override;
  Status limit_namespaces(std::uint16_t tenant, std::uint32_t most) override;
  Status submit(const Job& job, JobId* id) override;
  [[nodiscard]] int event_fd() const override { return jobs_.event_fd(); }
  std::vector<JobResult> drain() override { return jobs_.drain(); }
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
  /// The first tier's, with what all tiers hold and what moved between them.
  [[nodiscard]] ObjectStoreStats stats() const override;
  [[nodiscard]] std::vector<ObjectStoreStats> tier_stats() const override;
  [[nodiscard]] std::vector<NamespaceInfo> namespaces() const override;
  std::vector<ObjectInfo> list(std::uint32_t first, std::size_t most) const override;
  Status describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) override;
  std::vector<ObjectInfo> coldest(std::uint64_t bytes) override;
  Status verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) override;
  Status defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) override;
  /// What each holds in all tiers; quotas are the last one's.
  [[nodiscard]] std::vector<TenantUsage> tenants() const override;
  // Memory is the first tier's to lend.
  Status allocate(std::size_t bytes, std::span<std::byte>* memory) override {
    return tiers_.front()->allocate(bytes, memory);
  }
  Status release(std::span<std::byte> memory) override { return tiers_.front()->release(memory); }
  Status register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset) override {
    return tiers_.front()->register_memory(mapping, memfd, offset);
  }
  Status unregister_memory(std::span<std::byte> mapping) override {
    return tiers_.front()->unregister_memory(mapping);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Locked while objects are erased or replaced.
  struct ChangeLock {
    /// Alone while objects move: no copy comes back after it was erased.
    std::mutex order;
    /// Shared while objects are leased: what is found not to be leased in one tier is not until it
    /// is replaced in all.
    SharedMutex leasing;

    // Names that std::unique_lock asks for.
    void lock() {
      order.lock();
      leasing.lock();
    }
    void unlock() {
      leasing.unlock();
      order.unlock();
    }
  };

  StackedStore(std::shared_ptr<Tiers> tiers, const StackOptions& options);
  static Status open(const std::shared_ptr<Tiers>& tiers, const StackOptions& options,
                     std::unique_ptr<ObjectStore>* store, std::string* reason);

  /// open_namespace() or adopt_namespace(), by what `open(tier, number)` does in each tier.
  template <typename Open>
  Status open_by(Open open, std::uint32_t* number);
  /// `open` in all tiers, or in none.
  template <typename Open>
  Status open_in_tiers(Open open, std::vector<std::uint32_t>* numbers);
  void close_in_tiers(std::span<const std::uint32_t> numbers);
  /// Lets the tiers forget what nobody has open and none of them has objects of; false: nothing.
  bool close_unused();

  void run_items(const Job& job, std::size_t first, std::size_t count, JobResult* result);
  void get(const Job& job, std::span<Status> statuses, std::span<std::uint32_t> object_bytes);
  /// Which of a job's objects are in any tier.
  void find(const Job& job, std::span<Status> statuses);
  /// Copies what was just found in `tier` to the first one, if it is asked for often.
  void promote(const Job& job, const ObjectItem& item, std::size_t tier);
  /// The job with the tier's number of its namespace.
  [[nodiscard]] Job for_tier(Job job, std::size_t tier) const;

  // stacked_store_set.cpp
  void set(const Job& job, std::span<Status> statuses);
  /// One object: in the first tier as soon as others went down, after the deadline in the next one
  /// that has room.
  void set_where_there_is_room(const Job& job, Clock::time_point deadline, Status* status);
  /// One object, or parts of one, in one tier, and nowhere else if the job overwrites.
  void set_in(std::size_t tier, const Job& job, bool evict, Status* status);
  void set_parts(const Job& job, std::span<Status> statuses);
  /// For a job that overwrites: takes the lock and erases what is below a tier, of which the job's
  /// objects are to be set then whose statuses are kOk; those that are leased anywhere are kBusy.
  /// False: a tier was not reached, and the statuses say so.
  [[nodiscard]] bool begin_overwrite(std::size_t tier, const Job& job,
                                     std::unique_lock<ChangeLock>* lock,
                                     std::span<Status> statuses);
  /// True after a while in which others may have gone down, if `status` says that the first tier is
  /// full and it is worth to try again.
  [[nodiscard]] bool wait_for_room(Status status, Clock::time_point deadline);
  /// Only the last tier loses what has to make room; the others hand it down.
  [[nodiscard]] bool may_evict(const Job& job, std::size_t tier) const;
  /// A job that sets, in one tier.
  void run_in(std::size_t tier, Job job, bool evict, std::span<Status> statuses);
  /// Items [first, first + count) as a job of their own.
  [[nodiscard]] static Job slice(const Job& job, std::size_t first, std::size_t count);
  /// Makes the statuses of those of a job's objects kBusy that somebody has leased in any tier.
  void find_leased(const Job& job, std::span<Status> statuses);
  /// Erases those of a job's objects whose statuses are kOk or kNotFound in tiers [first_tier,
  /// end_tier), from the last one up: kOk for what was there, and what is not to be erased (kBusy)
  /// in one tier stays in those above it too. Returns what says that a tier was not reached.
  Status erase_in(std::size_t first_tier, std::size_t end_tier, const Job& job,
                  std::span<Status> statuses);
  void erase(const Job& job, std::span<Status> statuses);

  std::shared_ptr<Tiers> tiers_owner_;  ///< Also of open(), which may have to give them back.
  Tiers& tiers_;
  StackOptions options_;
  TierNumbers numbers_;  ///< Of namespaces that the stack itself has open, once in each tier.
  mutable std::mutex opening_;
  std::map<std::uint32_t, std::uint32_t> users_;  ///< How often callers have a number open.
  Hotness hotness_;
  ChangeLock changes_;
  std::mutex leases_mutex_;
  std::map<LeaseId, std::vector<LeaseId>> leases_;  ///< By tier.
  LeaseId next_lease_ = 1;
  std::atomic<std::uint64_t> promotions_{0};
  TierMover mover_;  ///< It stops before what it uses goes.
  JobQueue jobs_;    ///< Last: sets that wait for room still need the mover.
};

}  // namespace nearkv
