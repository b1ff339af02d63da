// All objects of one pool: what the jobs of an ObjectStore do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_set>
#include <vector>

#include "media/guarded.hpp"
#include "nearkv/object_store.hpp"
#include "object/extent_allocator.hpp"
#include "object/flat_index.hpp"
#include "object/leases.hpp"
#include "object/namespace_table.hpp"
#include "object/object_key.hpp"
#include "object/object_slabs.hpp"
#include "object/object_states.hpp"
#include "object/payload.hpp"
#include "object/prefix_tree.hpp"
#include "object/record_table.hpp"
#include "object/store_counters.hpp"
#include "object/stored_parts.hpp"
#include "object/tenants.hpp"
#include "object/wall_clock.hpp"
#include "pool/pool_memory.hpp"

namespace nearkv {

/// How the objects of one kSet job are stored; as Job's.
struct SetOptions {
  std::uint32_t namespace_number = 0;
  bool chain = false;
  Key parent;
  bool overwrite = false;
  bool evict = true;
  std::uint16_t parts = 0;
  std::uint32_t object_bytes = 0;
  std::chrono::seconds age{0};
};

/// Records are the truth; index, prefix tree, extents and policies are views of them, made anew by
/// recover(). An object goes through:
///
///   record taken, room reserved -> payload copied -> record written | fence |
///   record published | fence | -> found by others, acknowledged
///
///   taken out of the views -> record unpublished | fence | -> once unused, room and record free
///
/// Locks, in the order in which they may be taken: space_, then a shard of the index or the tree.
///
/// Thread safety: all calls but recover(). Batches share fences, so larger ones are faster.
class Objects {
 public:
  /// `seals`: null to store plain. `patience`: how long a set waits for leases to end where room is
  /// short.
  Objects(std::shared_ptr<PoolMemory> pool, std::unique_ptr<Payload> payload,
          std::unique_ptr<Seals> seals, TenantOptions tenants, std::chrono::milliseconds patience,
          WallClock clock);

  /// Finds what earlier work left. Called once, before anything else.
  Status recover();

  Status open_namespace(const Namespace& name, std::uint32_t* number) {
    return namespaces_.open(name, number);
  }
  Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number) {
    return namespaces_.adopt(info, number);
  }
  Status close_namespace(std::uint32_t number) { return namespaces_.close(number); }
  void limit_namespaces(std::uint16_t tenant, std::uint32_t most) {
    namespaces_.limit(tenant, most);
  }
  [[nodiscard]] bool has_namespace(std::uint32_t number) const {
    return namespaces_.tenant(number).has_value();
  }

  /// One status, and for get() one size, for each item.
  void set(const SetOptions& options, std::span<const ObjectItem> items,
           std::span<Status> statuses);
  void set_parts(const SetOptions& options, std::span<const ObjectItem> items,
                 std::span<Status> statuses);
  void get(std::uint32_t namespace_number, bool quiet, std::span<const ObjectItem> items,
           std::span<Status> statuses, std::span<std::uint32_t> object_bytes);
  void erase(std::uint32_t namespace_number, std::span<const ObjectItem> items,
             std::span<Status> statuses);

  // As ObjectStore's.
  std::size_t exists(std::uint32_t namespace_number, std::span<const Key> keys,
                     std::span<bool> present) const;
  /// The same for a job's items, whose keys may be digests.
  std::size_t exists(std::uint32_t namespace_number, std::span<const ObjectItem> items,
                     std::span<bool> present) const;
  std::size_t match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) const;
  void touch(std::uint32_t namespace_number, std::span<const Key> keys);
  LeaseId pin(std::uint32_t namespace_number, std::span<const Key> keys,
              std::chrono::nanoseconds duration, std::span<Status> statuses);
  Status unpin(LeaseId lease);
  Status set_quota(std::uint16_t tenant, std::uint64_t bytes);
  void set_wipe(std::uint16_t tenant, bool wipe);
  void watch(std::size_t most);
  std::vector<StoreEvent> take_events(std::uint64_t* missed);
  [[nodiscard]] ObjectStoreStats stats() const;
  [[nodiscard]] std::vector<NamespaceInfo> namespaces() const { return namespaces_.list(); }
  [[nodiscard]] std::vector<ObjectInfo> list(std::uint32_t first, std::size_t most);
  Status describe(std::uint32_t namespace_number, Key key, ObjectInfo* info);
  [[nodiscard]] std::vector<ObjectInfo> coldest(std::uint64_t bytes);
  Status verify(std::uint32_t first, std::size_t most, VerifyProgress* progress);
  /// As ObjectStore's. Tells how many slabs it has emptied. Until told to stop, too: then it ends
  /// after the object in hand.
  std::size_t defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes,
                         const std::stop_token& stop = {});
  /// Bytes of slabs that are lost beside objects' bytes beyond `share` of the slabs; 0 also if
  /// defragment() could not win back a good part of that, a slab at least.
  [[nodiscard]] std::uint64_t sparse_bytes(double share) const;
  /// Calls `tell` whenever room of so large a share of the slabs, or one slab, has been given out
  /// or freed, whatever defragment() does. It must not call back. Once, before anything else.
  void on_churn(double share, std::function<void()> tell);
  [[nodiscard]] std::vector<TenantUsage> tenants() const;

 private:
  /// A new object on its way in.
  struct Incoming {
    explicit Incoming(const StoredKey& name) : key(name) {}

    std::size_t item = 0;
    StoredKey key;
    std::uint64_t fingerprint = 0;
    std::uint64_t ancestor = 0;  ///< As Link's.
    ObjectId id = kNoObject;
    nkv_object_record record{};
    std::vector<Extent> extents;
    bool has_list = false;  ///< The last extent is for the list of the others.
  };

  [[nodiscard]] std::uint64_t fingerprint_of(std::uint32_t namespace_number,
                                             const StoredKey& key) const;
  /// Whether an object has this key, for the index to ask. The key must outlive it.
  [[nodiscard]] auto matcher(std::uint32_t namespace_number, const StoredKey& key) const {
    return [this, namespace_number, &key](ObjectId id) {
      return records_.holds(id, key, namespace_number);
    };
  }

  /// exists() by keys or items.
  template <typename Name>
  std::size_t find_all(std::uint32_t namespace_number, std::span<const Name> names,
                       std::span<bool> present) const;

  // objects_set.cpp
  /// By their fingerprints, what an object of a chain follows, and the last one before it that may
  /// be stored by now; 0: nothing.
  struct Link {
    std::uint64_t parent = 0;
    std::uint64_t ancestor = 0;
  };
  /// Of a job's first object.
  [[nodiscard]] Link link_of(const SetOptions& options) const;
  static void put(const Link& link, Incoming* incoming);
  Status begin(const SetOptions& options, std::uint64_t bytes, Incoming* incoming);
  /// The same, and waits for room as long as patience lasts.
  Status begin_patiently(const SetOptions& options, std::uint64_t bytes, Incoming* incoming);
  Status copy_in(const ObjectItem& item, Incoming* incoming);
  void commit(bool overwrite, std::span<Incoming> group, std::span<Status> statuses);
  void abandon(const Incoming& incoming, Status why);
  /// Keeps its room, some of which is poison, from being used, now and later. Under space_.
  [[nodiscard]] bool quarantine(const Incoming& incoming);

  // objects_set_parts.cpp
  struct Partial;
  using PartialName = std::pair<std::uint32_t, std::array<std::uint8_t, NKV_OBJECT_KEY_BYTES + 1>>;
  [[nodiscard]] static PartialName name_of(std::uint32_t namespace_number, const StoredKey& key);
  Status set_part(const SetOptions& options, const Link& link, const ObjectItem& item);
  Status join(const SetOptions& options, const Link& link, const StoredKey& key,
              std::shared_ptr<Partial>* partial);
  Status finish(const SetOptions& options, Partial* partial);
  /// Lets nobody add to it any more. Under its mutex.
  void retire(std::uint32_t namespace_number, Partial* partial);
  bool drop_partial(std::uint32_t namespace_number, const StoredKey& key);
  void drop_stale_partials();

  // objects_get.cpp
  /// Finds an object and keeps its number and room from being used again until end_use().
  [[nodiscard]] std::optional<ObjectId> use(std::uint32_t namespace_number, const StoredKey& key);
  void end_use(ObjectId id);
  /// Ends a use that the caller has begun, when it goes.
  class InUse {
   public:
    InUse(Objects* objects, ObjectId id) : objects_(objects), id_(id) {}
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    ~InUse() { objects_->end_use(id_); }

   private:
    Objects* objects_;
    ObjectId id_;
  };
  /// Whether an object in use is still what its key stands for.
  [[nodiscard]] bool is_indexed(ObjectId id) const;
  void hit(ObjectId id);
  /// Whether an object that could not be read is to go; else it may be readable the next time.
  [[nodiscard]] static bool is_damage(Status status) {
    return status == Status::kCorrupt || status == Status::kPoison;
  }
  /// The record of an object that the index holds, and where it lies. kCorrupt, kPoison, or why a
  /// list of extents cannot be read now.
  Status load(ObjectId id, nkv_object_record* record, std::vector<Extent>* extents) const;
  Status copy_out(ObjectId id, const ObjectItem& item, std::uint32_t* bytes);
  void poison(ObjectId id, Status why);

  void end_leases(std::span<const ObjectId> held);
  void end_expired_leases();

  /// The time by which objects age.
  [[nodiscard]] std::uint64_t now_s() const { return record_seconds(clock_()); }

  // objects_space.cpp; all but reserve() and free_retired() under space_
  Status reserve(bool may_evict, Incoming* incoming);
  Status reserve_room(bool may_evict, Incoming* incoming);
  [[nodiscard]] bool allocate(Incoming* incoming, ExtentAllocator::Reach reach);
  /// Charges what allocate() and a record took to the tenant.
  void occupy(const Incoming& incoming);
  /// Evicts, or only what is expired, until `bytes` are free or nothing can go; gives what was
  /// freed.
  /// Stops before what leads to `ancestor`.
  std::uint64_t evict(std::uint16_t tenant, std::uint64_t bytes, bool only_expired = false,
                      std::uint64_t ancestor = 0);
  /// The same of whose turn it is, of the first who can give anything.
  std::uint64_t evict_anybody(std::uint64_t bytes, bool only_expired, std::uint64_t ancestor);
  /// Puts an object that the index holds into the other views.
  void enlist(ObjectId id, const nkv_object_record& record);
  /// Takes it out of them.
  void withdraw(ObjectId id, StoreEvent::Kind why);
  void tell(StoreEvent::Kind kind, ObjectId id);
  /// Who keeps an object from being forgotten. The index decides, so that nobody comes in between.
  enum class Held : std::uint8_t { kByNobody, kByLeases, kByAnyUse };
  /// Takes an object out of all views, its record untouched. False: it was not in them, or is held.
  [[nodiscard]] bool forget(ObjectId id, StoreEvent::Kind why, Held held);
  /// Frees the records of forgotten objects, and their room once nobody uses them. What is to be
  /// wiped and cannot be found now is left for the next open() to wipe.
  void unpublish(std::span<const ObjectId> ids);
  void free_space(ObjectId id, std::span<const Extent> extents);
  void free_retired(ObjectId id);
  void count_churn(std::uint64_t bytes);

  // objects_maintain.cpp
  /// What a record says; nothing if it is not that of an object.
  [[nodiscard]] std::optional<ObjectInfo> describe(ObjectId id) const;
  [[nodiscard]] bool use_known(ObjectId id);
  /// Reads all that `from` holds of an object.
  Status read_payload(std::span<const Extent> from, std::span<std::byte> payload);
  /// Writes that, and its extents, anew.
  Status write_payload(std::span<const std::byte> payload, Incoming* incoming);
  bool move(ObjectId id, const nkv_object_record& record, std::span<const Extent> from);
  /// Puts one record in the place of another in all views but the index.
  void rename(ObjectId from, ObjectId to);
  [[nodiscard]] std::vector<std::uint32_t> close_sparse_slabs(std::uint64_t most_bytes);
  [[nodiscard]] bool any_in(std::span<const std::uint32_t> slabs,
                            std::span<const Extent> extents) const;
  /// Those of some records' objects that may have room in `slabs`, each in use by the caller.
  void use_movable(ObjectId first, std::span<const std::uint32_t> slabs,
                   std::vector<ObjectId>* movable);

  // objects_recovery.cpp
  struct Found;
  struct Scan;
  /// Whether a record could be one of this library's: its numbers fit each other.
  [[nodiscard]] bool is_sane(const nkv_object_record& record) const;
  /// Reads records, and makes durable what they say. Not kOk: what they say is not known.
  Status scan(Scan* scan);
  Status scan_all(std::vector<Scan>* scans);
  /// Keeps the grain of an object's list, which is poison, from being used, now and later. The
  /// object is lost, and where the rest of it lay is not known. False: the grain is not its own.
  [[nodiscard]] bool quarantine_list(ObjectId id);
  /// Takes the room of what was found, and frees what is torn or doomed. Gives the objects.
  [[nodiscard]] std::vector<Found> adopt(std::span<Scan> scans);
  /// Puts objects into the index, the latest of each key. The others are taken out and given.
  [[nodiscard]] std::vector<ObjectId> index(std::vector<Found>* objects);
  /// Puts objects into all other views.
  void enlist_all(std::span<const Found> objects);

  std::shared_ptr<PoolMemory> pool_;
  Persistence* persistence_;
  SigbusHandler sigbus_;
  std::unique_ptr<Payload> payload_;
  std::chrono::milliseconds patience_;
  WallClock clock_;
  RecordTable records_;
  NamespaceTable namespaces_;
  StoredParts parts_;
  ObjectStates states_;
  FlatIndex index_;
  PrefixTree tree_;
  Leases leases_;
  mutable StoreCounters counters_;
  std::atomic<std::uint64_t> generation_{0};

  mutable std::mutex space_;  ///< Over all that follows.
  ObjectSlabs slabs_;
  ExtentAllocator extents_;
  Tenants tenants_;
  std::unordered_set<std::uint64_t> refused_;  ///< Of chains, for want of room; the last ones.
  std::map<ObjectId, std::vector<Extent>> retired_;  ///< Gone, but in use.
  std::deque<StoreEvent> events_;
  std::size_t most_events_ = 0;
  std::uint64_t missed_events_ = 0;
  std::function<void()> tell_churn_;
  double churn_share_ = 0;
  std::uint64_t churned_bytes_ = 0;  ///< Since it was told of.

  std::mutex partials_mutex_;
  std::map<PartialName, std::shared_ptr<Partial>> partials_;
};

}  // namespace nearkv
