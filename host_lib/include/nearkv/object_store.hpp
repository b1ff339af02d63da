// KV blocks as opaque objects: what a serving engine's tier interface asks for.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nearkv/api.h"
#include "nearkv/status.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Who shares keys. Blocks are found only under the very namespace that they were stored in, so
/// engines, ranks and salts never mix.
struct Namespace {
  std::uint16_t tenant = 0;
  std::string model;
  std::string dtype;
  std::string layout;
  std::uint32_t rank = 0;
  std::uint32_t group = 0;
  std::string salt;  ///< Secret: only a digest of it is kept.
};

/// An engine's hash of a block, of any length from 1 byte on.
using Key = std::span<const std::byte>;

/// One object of a job. Segments are gone through in order, as if they were one run of bytes.
struct ObjectItem {
  Key key;
  std::span<const std::span<const std::byte>> source;  ///< kSet.
  std::span<const std::span<std::byte>> target;        ///< kGet; kBadArgument if it is too small.
  std::uint16_t first_part = 0;                        ///< kGet, kSetParts.
  std::uint16_t part_count = 0;                        ///< 0: all of it.
  bool key_is_digest = false;    ///< The key is ObjectInfo's, of an object with a long one.
  std::uint64_t generation = 0;  ///< kGet, kErase: only if it is this one; 0: whichever.
};

enum class JobKind : std::uint8_t {
  kGet,       ///< Copies objects out, each verified.
  kSet,       ///< Copies objects in; each is there, whole, once its status is kOk.
  kErase,     ///< Deletes objects; kBusy for leased ones.
  kExists,    ///< kOk or kNotFound for each key.
  kSetParts,  ///< Copies parts (layers) of objects in, in any order and by any number of jobs; each
              ///< object is there, whole, once its last part is kOk, and not before. Until then
              ///< erasing it forgets the parts that have come.
};

/// A batch. Keys and lists of segments are copied by submit(), unless they stay; the memory that
/// segments name stays the caller's and must live until the job is over.
struct Job {
  JobKind kind = JobKind::kGet;
  std::uint32_t namespace_number = 0;
  std::span<const ObjectItem> items;
  bool quiet = false;       ///< kGet: no use that eviction or statistics should see.
  bool lists_stay = false;  ///< Items, keys and lists of segments live until the job is over too.

  // kSet and kSetParts only.
  /// Item i + 1 is the block after item i in one prefix. None makes those before it go.
  bool chain = false;
  Key parent;              ///< With chain: the block before item 0; empty: none.
  bool overwrite = false;  ///< Replace what is there; else an existing object counts as set.
  bool evict = true;  ///< Others may have to make room; else kPoolFull, unless some are expired.
  std::uint16_t parts = 0;         ///< Equal parts (layers) that can be read alone; 0: none.
  std::uint32_t object_bytes = 0;  ///< kSetParts: of a whole object.
  std::chrono::seconds age{0};     ///< May go when older; 0: never by age.
};

using JobId = std::uint64_t;

/// How a job ended.
struct JobResult {
  JobId id = 0;
  std::vector<Status> items;  ///< One each, in order.
  /// kGet: what was copied or, if the target was too small (none at all asks so), what it has to
  /// hold; else 0.
  std::vector<std::uint32_t> object_bytes;

  [[nodiscard]] NEARKV_API bool all_ok() const;
};

using LeaseId = std::uint64_t;

/// What a namespace's record says.
struct NamespaceInfo {
  std::uint32_t number = 0;
  std::uint16_t tenant = 0;
  std::uint32_t users = 0;                ///< How often it is open now.
  std::uint32_t objects = 0;              ///< Objects in it, those on their way in or out too.
  std::string text;                       ///< Model, dtype, layout, rank and group; not the salt.
  std::array<std::uint8_t, 32> digest{};  ///< Of all that makes it, the salt included.
};

/// What an object's record says.
struct ObjectInfo {
  std::uint32_t number = 0;  ///< Of the record; orders list().
  std::uint32_t namespace_number = 0;
  std::uint16_t tenant = 0;
  std::vector<std::byte> key;  ///< Or its SHA-256.
  bool key_is_digest = false;
  bool leased = false;
  std::uint32_t bytes = 0;
  std::uint16_t parts = 0;
  std::uint16_t extents = 0;
  std::uint64_t generation = 0;
  std::uint32_t created_s = 0;  ///< Since 1970.
  std::uint32_t expires_s = 0;  ///< 0: never by age.
};

/// What verify() found: each step adds to the counts.
struct VerifyProgress {
  std::uint32_t next = 0;  ///< Where the next step goes on; 0 again: all has been seen.
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t damaged = 0;  ///< Objects that are gone since.
};

/// What a tenant holds.
struct TenantUsage {
  std::uint16_t tenant = 0;
  std::uint64_t used_bytes = 0;   ///< Rounding included.
  std::uint64_t quota_bytes = 0;  ///< Largest number: no limit.
};

struct ObjectStoreStats {
  std::uint64_t total_bytes = 0;  ///< That objects and pages can use.
  std::uint64_t slab_bytes = 0;   ///< Of slabs that objects have begun: what pages cannot use.
  std::uint64_t used_bytes = 0;   ///< Held by objects, rounding included.
  std::uint64_t object_bytes = 0;
  std::uint64_t objects = 0;
  std::uint64_t namespaces = 0;
  std::uint64_t leases = 0;
  std::uint64_t sets = 0;  ///< Objects stored.
  std::uint64_t set_bytes = 0;
  std::uint64_t hits = 0;  ///< Objects given out.
  std::uint64_t get_bytes = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t expirations = 0;
  std::uint64_t corruptions = 0;  ///< Checksums that failed, each once.
  std::uint64_t recovered = 0;    ///< Objects found when the store was opened.
  std::uint64_t torn = 0;         ///< Records that open() dropped as never finished or damaged.
  std::uint64_t moved = 0;        ///< Objects that compaction moved.
  std::uint64_t promotions = 0;   ///< Objects copied to the first of several tiers.
  std::uint64_t demotions = 0;    ///< Objects handed down to the next one.
  std::uint64_t quarantined = 0;  ///< Objects whose memory is not used again: it reported poison.
  std::uint64_t max_objects = 0;  ///< That the pool has records for.
  std::uint64_t max_namespaces = 0;
};

/// How tiers work together.
struct StackOptions {
  double high_watermark = 0.9;  ///< Of a tier's room; above it, its coldest objects go down,
  double low_watermark = 0.8;   ///< until this is reached.
  unsigned promote_after = 2;   ///< Lately found below so often, an object is copied to the top.
  bool write_through = false;   ///< Sets go to all tiers at once, not only when they are cold.
  std::chrono::milliseconds patience{1000};  ///< How long a set waits for others to go down.
  unsigned workers = 1;
  /// The tiers' ObjectStore::Options::clock, by which an object that moves keeps its age.
  std::function<std::chrono::system_clock::time_point()> clock{};
};

/// A change of what is there.
struct StoreEvent {
  enum class Kind : std::uint8_t { kStored, kEvicted, kErased, kDamaged };
  Kind kind = Kind::kStored;
  std::uint8_t tier = 0;  ///< In a stack, of which tiers tell for themselves: 0 is the fastest.
  std::uint32_t namespace_number = 0;
  std::uint32_t bytes = 0;
  std::vector<std::byte> key;  ///< Or its SHA-256.
  bool key_is_digest = false;
};

/// Objects of 1 byte to 512 MiB in a pool's memory, found by key.
///
/// What a job has acknowledged with kOk survives what the memory survives (Durability) and is never
/// returned torn: a checksum is verified on every read. An object whose checksum fails, or whose
/// memory reports poison, is gone from then on. When room runs short, objects that nobody has
/// leased are evicted, those of a tenant over its quota first.
///
/// Thread safety: all calls.
class NEARKV_API ObjectStore {
 public:
  struct Options {
    std::uint32_t max_objects = 0;  ///< 0: one for every 64 KiB of memory.
    std::uint32_t max_namespaces = 1024;
    unsigned workers = 1;                ///< Threads that run jobs; whoever waits for a job helps.
    std::string eviction = "chain_lhd";  ///< lru or chain_lhd.
    std::chrono::milliseconds patience{0};  ///< How long a set waits for leases to free room.
    /// A file of 32 random bytes that only its owner may read. With it objects are encrypted on
    /// their way in (XAES-256-GCM, a key for each tenant); keys and sizes stay readable. Without
    /// it, or with another one, gets of such objects end with kDenied, and the objects stay. Empty:
    /// objects are stored as they come.
    std::string seal_key_file;
    /// The share of the slabs that objects have begun which may be lost before a thread of the
    /// store moves objects together, as defragment() does. 0 or less: only defragment() does.
    double defragment_above = 0.04;
    /// The time of day by which objects age, asked from any thread; none: the system's.
    std::function<std::chrono::system_clock::time_point()> clock;
  };

  /// Formats what a URI names:
  ///
  ///   cpu:[PATH]?memory=SIZE   memory of this machine, as of open_device(): DRAM, a file in the
  ///                            page cache, DAX; without PATH nothing survives
  ///   file:PATH?memory=SIZE    a file on NVMe, read and written past the page cache
  ///
  /// kBusy while another store or device has the file open, kBadUri, kIoError, kPoolFull,
  /// kBadArgument, and in `reason` what to do.
  static Status create(const std::string& uri, const Options& options,
                       std::unique_ptr<ObjectStore>* store, std::string* reason = nullptr);

  /// Takes up what create() and earlier work left; sizes come from the pool itself. kBadPool.
  static Status open(const std::string& uri, const Options& options,
                     std::unique_ptr<ObjectStore>* store, std::string* reason = nullptr);

  /// Takes up the pool that is there, whatever its size; makes one of memory=SIZE where there is no
  /// file, or one that nothing was ever written to.
  static Status open_or_create(const std::string& uri, const Options& options,
                               std::unique_ptr<ObjectStore>* store, std::string* reason = nullptr);

  /// Puts stores on top of each other, the fastest first, and makes them one. A key is to stand for
  /// its contents: a set that does not overwrite looks for an existing object in the first tier
  /// only, and what it stores goes before what lies below. Where it fails, `tiers` are as they
  /// were.
  static Status stack(std::vector<std::unique_ptr<ObjectStore>>&& tiers,
                      const StackOptions& options, std::unique_ptr<ObjectStore>* store,
                      std::string* reason = nullptr);
  struct ClientOptions {
    /// Memory to share with the daemon: one half for allocate(), the other to carry the bytes of
    /// segments that lie elsewhere, and so the largest object that such segments can hold
    /// (kWindowTooSmall). The daemon gives at most what it is configured to. It takes memory only
    /// as far as it was ever filled.
    std::uint64_t window_bytes = 1ULL << 30;
    std::chrono::milliseconds patience{5000};  ///< How long a daemon's restart is waited for.
    /// How long a daemon that is there is waited for: to answer a call, or anything amid a job.
    std::chrono::milliseconds answer_timeout{10000};
  };

  /// A store that a daemon owns (nearkv serve). kNoDaemon, kDenied, kBadAbi, kQueueFull.
  ///
  /// It is used like one in this process, with what the daemon's configuration permits (kDenied).
  /// Calls for administrators find nothing without that permission; nor does anybody else see
  /// events of namespaces that he has not opened. When the daemon dies, jobs in
  /// flight end with kAborted and leases are gone; the next call waits for its restart, opens the
  /// namespaces again and goes on, or ends with kNoDaemon where it can say so. Where a daemon
  /// hangs, or is stopped, a call ends with kTimeout, and those after it at once, until it answers
  /// again; it may do then what it was asked for. A process made by fork() must connect by itself.
  static Status connect(const std::string& socket_path, const ClientOptions& options,
                        std::unique_ptr<ObjectStore>* store, std::string* reason = nullptr);

  ObjectStore() = default;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;
  virtual ~ObjectStore() = default;

  /// The namespace's number, for jobs; made if it is new. Where max_namespaces are there, one makes
  /// room that nobody has open and that holds no objects. kNamespacesFull if there is none;
  /// kNameTooLong: model, dtype and layout have 960 bytes together at most, and each 208 bytes of
  /// them, after the first, take a further one of max_namespaces.
  virtual Status open_namespace(const Namespace& name, std::uint32_t* number) = 0;

  /// The same for a namespace of another store, of which no more is known.
  virtual Status adopt_namespace(const NamespaceInfo& info, std::uint32_t* number);

  /// Undoes one of both. Its objects stay; the number is not to be used any more, unless it is open
  /// elsewhere. What a daemon's client has open is closed with it. kNotFound if it is not open.
  virtual Status close_namespace(std::uint32_t number);

  /// Most namespaces that open_namespace() makes for a tenant; those that are there stay.
  virtual Status limit_namespaces(std::uint16_t tenant, std::uint32_t most);

  /// Hands a job to the workers. kBadArgument if it makes no sense as a whole; what is wrong with
  /// one item is that item's status.
  virtual Status submit(const Job& job, JobId* id) = 0;

  /// Readable while drain() has something to give. Owned by the store.
  [[nodiscard]] virtual int event_fd() const = 0;

  /// Jobs that are over, each reported once.
  virtual std::vector<JobResult> drain() = 0;

  /// Waits for one job, working on it meanwhile; drain() will not report it. kNotFound if it was
  /// reported already, kTimeout.
  virtual Status wait(JobId id, std::chrono::nanoseconds timeout, JobResult* result) = 0;

  /// Items that have not begun end with kCancelled; those being copied are finished. Where a daemon
  /// has been silent for answer_timeout, those end with kTimeout whose memory is not shared with
  /// it, and who waits for the job already learns it at the end of his time. kNotFound if the job
  /// is over.
  virtual Status cancel(JobId id) = 0;

  /// Runs a job on the calling thread; what a silent daemon has of it ends as by cancel().
  virtual Status run(const Job& job, JobResult* result) = 0;

  /// How many keys from the first on are there; `present`, if not empty, tells it for each.
  virtual std::size_t exists(std::uint32_t namespace_number, std::span<const Key> keys,
                             std::span<bool> present = {}) = 0;

  /// Length of the longest stored prefix of a chain of blocks (Job::chain).
  virtual std::size_t match_prefix(std::uint32_t namespace_number, std::span<const Key> chain) = 0;

  /// Marks objects as used now.
  virtual void touch(std::uint32_t namespace_number, std::span<const Key> keys) = 0;

  /// Keeps those of the keys that are there from being evicted, erased or moved until unpin() or
  /// `duration` from now; `statuses` is one for each key. A lease without any key is none: id 0.
  virtual LeaseId pin(std::uint32_t namespace_number, std::span<const Key> keys,
                      std::chrono::nanoseconds duration, std::span<Status> statuses) = 0;

  /// kNotFound if the lease has ended.
  virtual Status unpin(LeaseId lease) = 0;

  /// Most bytes that a tenant's objects may hold; evicts what is over it. In a stack it is the last
  /// tier's: what is above has to fit there sooner or later.
  virtual Status set_quota(std::uint16_t tenant, std::uint64_t bytes) = 0;

  /// Whether bytes of a tenant's objects that are stored from now on are wiped when they go.
  virtual Status set_wipe(std::uint16_t tenant, bool wipe);

  /// From now on keeps the last `most` changes for take_events(); 0: none.
  virtual Status watch(std::size_t most);

  /// Changes since the last call, in their order in each tier; `missed`: how many more there were
  /// than fit.
  virtual std::vector<StoreEvent> take_events(std::uint64_t* missed);

  [[nodiscard]] virtual ObjectStoreStats stats() const = 0;

  /// One for each tier, the fastest first.
  [[nodiscard]] virtual std::vector<ObjectStoreStats> tier_stats() const { return {stats()}; }

  [[nodiscard]] virtual std::vector<NamespaceInfo> namespaces() const = 0;

  /// Up to `most` objects from record `first` on, in the order of their records.
  virtual std::vector<ObjectInfo> list(std::uint32_t first, std::size_t most) const = 0;

  /// What one object's record says. kNotFound.
  virtual Status describe(std::uint32_t namespace_number, Key key, ObjectInfo* info) = 0;

  /// Objects that would be evicted next, about `bytes` of them, the first one first. They stay.
  virtual std::vector<ObjectInfo> coldest(std::uint64_t bytes);

  /// Reads up to `most` records' objects from `first` on and checks every byte. What is damaged is
  /// gone from then on, as if a get had found it. Where an object cannot be read this time
  /// (kTimeout, kOutOfMemory) the step ends with that, and the next one goes on with it.
  virtual Status verify(std::uint32_t first, std::size_t most, VerifyProgress* progress) = 0;

  /// Moves objects together so that slabs become free, up to about `most_bytes`; those that are
  /// leased or being read stay. 0 `moved_bytes`: nothing is to be gained. Options::defragment_above
  /// lets the store do so by itself.
  virtual Status defragment(std::uint64_t most_bytes, std::uint64_t* moved_bytes) = 0;

  /// Tenants that have objects, or a quota.
  [[nodiscard]] virtual std::vector<TenantUsage> tenants() const = 0;

  /// Memory that jobs copy from and to directly, wherever the store is; to be given back by
  /// release() as a whole, or with the store. kOutOfMemory.
  virtual Status allocate(std::size_t bytes, std::span<std::byte>* memory) = 0;

  /// No job may use it any more. kBadArgument if allocate() did not give it.
  virtual Status release(std::span<std::byte> memory) = 0;

  /// Makes a shared mapping of a memfd, from byte `offset` on, such memory. For a store in another
  /// process the memfd must be sealed against shrinking (F_SEAL_SHRINK) and begin at a page; it
  /// may be closed then, the mapping must stay. kBadArgument, kQuota, kQueueFull; kTimeout where
  /// a daemon is silent, and then it is none.
  virtual Status register_memory(std::span<std::byte> mapping, int memfd, std::uint64_t offset) = 0;

  /// kNotFound if it is not registered; kBusy while jobs are in flight. kTimeout where a daemon is
  /// silent: it is such memory no more, but jobs in flight may touch it yet.
  virtual Status unregister_memory(std::span<std::byte> mapping) = 0;
};

}  // namespace nearkv
