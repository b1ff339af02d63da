/* The C API of the object store: KV blocks as opaque objects, found by key.
 *
 * Conventions are those of nearkv.h: 0 or a negative errno, structures filled by their *_init
 * functions, `reason` for a line that says what to do about a failure. Structures say what
 * `nearkv/object_store.hpp` says of its own: same names, same units, same meaning.
 *
 * Thread safety: all calls on one store but nearkv_store_close(), which comes after all others have
 * returned.
 */
#ifndef NEARKV_STORE_H_
#define NEARKV_STORE_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "nearkv/api.h"
#include "nkv_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nearkv_store;

struct nearkv_store_options {
  uint32_t max_objects; /* 0: one for every 64 KiB of memory */
  uint32_t max_namespaces;
  uint32_t workers;        /* threads that run jobs; whoever waits for a job helps */
  uint32_t patience_ms;    /* how long a set waits for leases to free room */
  const char* eviction;    /* lru or chain_lhd */
  double defragment_above; /* share of begun slabs that may be lost before objects move; 0: never */
  const char*
      seal_key_file; /* 32 random bytes, mode 0600: objects are encrypted; null: they are not */
};

/* How stores on top of each other work together. */
struct nearkv_stack_options {
  double high_watermark;  /* of a tier's room; above it, its coldest objects go down, */
  double low_watermark;   /* until this is reached */
  uint32_t promote_after; /* lately found below so often, an object is copied to the top */
  uint8_t write_through;  /* sets go to all tiers at once, not only when they are cold */
  uint32_t patience_ms;   /* how long a set waits for others to go down */
  uint32_t workers;
};

struct nearkv_client_options {
  uint64_t window_bytes; /* memory to share with the daemon */
  uint32_t patience_ms;  /* how long its restart is waited for */
};

struct nearkv_namespace {
  uint16_t tenant;
  uint32_t rank;
  uint32_t group;
  const char* model;
  const char* dtype;
  const char* layout;
  const void* salt; /* secret: only a digest of it is kept */
  size_t salt_bytes;
};

/* One object of a job. Segments are gone through in order, as if they were one run of bytes. */
struct nearkv_item {
  const void* key;
  size_t key_bytes;
  const struct iovec* segments; /* SET and SET_PARTS read them, GET writes them */
  size_t segment_count;
  uint16_t first_part; /* GET, of an object that has parts, and SET_PARTS */
  uint16_t part_count; /* 0: all of it */
  uint64_t generation; /* GET, ERASE: only if it is this one; 0: whichever */
};

enum nearkv_job_kind {
  NEARKV_JOB_GET = 0,       /* copies objects out, each verified */
  NEARKV_JOB_SET = 1,       /* copies objects in; each is there, whole, once its status is OK */
  NEARKV_JOB_ERASE = 2,     /* deletes objects; BUSY for leased ones */
  NEARKV_JOB_EXISTS = 3,    /* OK or NOT_FOUND for each key */
  NEARKV_JOB_SET_PARTS = 4, /* copies parts (layers) in, in any order, by any number of jobs; an
                             * object is there, whole, once its last part is OK, and not before */
};

/* A batch. Keys and lists of segments are copied; the memory that segments name stays the caller's
 * and must live until the job is over. */
struct nearkv_job {
  uint8_t kind; /* enum nearkv_job_kind */
  uint32_t namespace_number;
  const struct nearkv_item* items;
  size_t item_count;
  uint8_t quiet; /* GET: no use that eviction or statistics should see */
  /* SET and SET_PARTS only */
  const void* parent; /* with chain: the key of the block before item 0; null: none */
  size_t parent_bytes;
  uint8_t chain;         /* item i + 1 is the block after item i in one prefix */
  uint8_t overwrite;     /* replace what is there; else an existing object counts as set */
  uint8_t keep;          /* nobody has to make room: SET ends with POOL_FULL instead */
  uint16_t parts;        /* equal parts (layers) that can be read alone; 0: none */
  uint32_t age_s;        /* may go when older; 0: never by age */
  uint32_t object_bytes; /* SET_PARTS: of a whole object */
};

/* How a job ended. */
struct nearkv_job_result {
  uint64_t id;
  size_t item_count;
  size_t ok_count;
  const uint8_t* statuses;      /* enum nkv_status, one per item */
  const uint64_t* ok_bits;      /* bit i % 64 of word i / 64: item i is OK */
  const uint32_t* object_bytes; /* GET: copied, or what too small a target has to hold; else 0 */
};

/* What run, wait and drain give; nearkv_job_results_free() ends it. */
struct nearkv_job_results {
  size_t count;
  const struct nearkv_job_result* results;
  void* owner;
};

struct nearkv_namespace_info {
  uint32_t number;
  uint16_t tenant;
  char text[NKV_NAMESPACE_TEXT_BYTES + 1]; /* zero-terminated; not the salt */
};

struct nearkv_object_info {
  uint32_t number; /* of the record; orders lists */
  uint32_t namespace_number;
  uint16_t tenant;
  uint16_t parts;
  uint16_t extents;
  uint8_t key_bytes;
  uint8_t key_is_digest; /* `key` is the SHA-256 of a longer key */
  uint8_t leased;
  uint8_t key[NKV_OBJECT_KEY_BYTES];
  uint32_t bytes;
  uint32_t created_s; /* since 1970 */
  uint32_t expires_s; /* 0: never by age */
  uint64_t generation;
};

struct nearkv_verify_progress {
  uint32_t next; /* where the next step goes on; 0 again: all has been seen */
  uint64_t objects;
  uint64_t bytes;
  uint64_t damaged; /* objects that are gone since */
};

enum nearkv_event_kind {
  NEARKV_EVENT_STORED = 0,
  NEARKV_EVENT_EVICTED = 1,
  NEARKV_EVENT_ERASED = 2,
  NEARKV_EVENT_DAMAGED = 3,
};

/* A change of what is there. */
struct nearkv_event {
  uint8_t kind; /* enum nearkv_event_kind */
  uint8_t key_bytes;
  uint8_t key_is_digest; /* `key` is the SHA-256 of a longer key */
  uint8_t tier;          /* in a stack; 0 is the fastest */
  uint32_t namespace_number;
  uint32_t bytes;
  uint8_t key[NKV_OBJECT_KEY_BYTES];
};

/* What take_events gives; nearkv_events_free() ends it. */
struct nearkv_events {
  size_t count;
  const struct nearkv_event* events;
  uint64_t missed; /* how many more there were than fit */
};

struct nearkv_object_stats {
  uint64_t total_bytes;
  uint64_t slab_bytes; /* begun by objects: what pages cannot use */
  uint64_t used_bytes; /* held by objects, rounding included */
  uint64_t object_bytes;
  uint64_t objects;
  uint64_t namespaces;
  uint64_t leases;
  uint64_t sets;
  uint64_t set_bytes;
  uint64_t hits;
  uint64_t get_bytes;
  uint64_t misses;
  uint64_t evictions;
  uint64_t expirations;
  uint64_t corruptions;
  uint64_t recovered;
  uint64_t torn;
  uint64_t moved;
  uint64_t promotions; /* copied to the first of several tiers */
  uint64_t demotions;  /* handed down to the next one */
  uint64_t quarantined;
  uint64_t max_objects; /* that the pool has records for */
  uint64_t max_namespaces;
};

NEARKV_API void nearkv_store_options_init(struct nearkv_store_options* options);

/* Formats memory of a device URI ("cpu:PATH?memory=8GiB"), or takes up what an earlier process left
 * there. */
NEARKV_API int nearkv_store_create(const char* uri, const struct nearkv_store_options* options,
                                   struct nearkv_store** store, char* reason, size_t reason_bytes);
NEARKV_API int nearkv_store_open(const char* uri, const struct nearkv_store_options* options,
                                 struct nearkv_store** store, char* reason, size_t reason_bytes);

/* A store that a daemon owns (nearkv serve), used like one in this process. */
NEARKV_API void nearkv_client_options_init(struct nearkv_client_options* options);
NEARKV_API int nearkv_store_connect(const char* socket_path,
                                    const struct nearkv_client_options* options,
                                    struct nearkv_store** store, char* reason, size_t reason_bytes);

/* Puts stores on top of each other, the fastest first, and makes them one. They are the new store's
 * from then on; where it fails they stay as they are. */
NEARKV_API void nearkv_stack_options_init(struct nearkv_stack_options* options);
NEARKV_API int nearkv_store_stack(struct nearkv_store* const* tiers, size_t tier_count,
                                  const struct nearkv_stack_options* options,
                                  struct nearkv_store** store, char* reason, size_t reason_bytes);

/* Finishes the items that are being copied and drops the jobs that are not over. */
NEARKV_API void nearkv_store_close(struct nearkv_store* store);

/* Tenant 0, rank 0, group 0, empty texts. */
NEARKV_API void nearkv_namespace_init(struct nearkv_namespace* name);

/* The namespace's number, for jobs; made if it is new. */
NEARKV_API int nearkv_store_open_namespace(struct nearkv_store* store,
                                           const struct nearkv_namespace* name, uint32_t* number);

/* Undoes that. The objects stay; the number is not to be used any more. A namespace that nobody has
 * open and that holds no objects makes room for others. */
NEARKV_API int nearkv_store_close_namespace(struct nearkv_store* store, uint32_t number);

/* A GET of no items. */
NEARKV_API void nearkv_job_init(struct nearkv_job* job);

/* Runs a job on the calling thread. What is wrong with one item is that item's status. */
NEARKV_API int nearkv_store_run(struct nearkv_store* store, const struct nearkv_job* job,
                                struct nearkv_job_results* results);

/* Hands a job to the workers. */
NEARKV_API int nearkv_store_submit(struct nearkv_store* store, const struct nearkv_job* job,
                                   uint64_t* id);

/* Waits for one job, working on it meanwhile; drain will not report it. -ETIMEDOUT; -ENOENT if it
 * was reported already. */
NEARKV_API int nearkv_store_wait(struct nearkv_store* store, uint64_t id, uint32_t timeout_ms,
                                 struct nearkv_job_results* results);

/*
 * Items that have not begun end CANCELLED; those being copied are finished, or, where a daemon has
 * been silent for 10 s and their memory is not shared with it, end TIMEOUT. -ENOENT: it is over.
 */
NEARKV_API int nearkv_store_cancel(struct nearkv_store* store, uint64_t id);

/* Readable while drain has something to give. Owned by the store. */
NEARKV_API int nearkv_store_event_fd(const struct nearkv_store* store);

/* Jobs that are over, each reported once. */
NEARKV_API int nearkv_store_drain(struct nearkv_store* store, struct nearkv_job_results* results);

/* Frees what run, wait or drain gave, and empties it. */
NEARKV_API void nearkv_job_results_free(struct nearkv_job_results* results);

/* `leading`: how many keys from the first on are there; `present`, if not null, receives 0 or 1 for
 * each. */
NEARKV_API int nearkv_store_exists(struct nearkv_store* store, uint32_t namespace_number,
                                   const struct iovec* keys, size_t key_count, size_t* leading,
                                   uint8_t* present);

/* `blocks`: length of the longest stored prefix of a chain of blocks. */
NEARKV_API int nearkv_store_match_prefix(struct nearkv_store* store, uint32_t namespace_number,
                                         const struct iovec* keys, size_t key_count,
                                         size_t* blocks);

/* Marks objects as used now. */
NEARKV_API int nearkv_store_touch(struct nearkv_store* store, uint32_t namespace_number,
                                  const struct iovec* keys, size_t key_count);

/* Keeps those of the keys that are there from being evicted, erased or moved until unpin or until
 * `duration_ms` have passed. `statuses`, one per key, says which they are; `lease` is 0 if none. */
NEARKV_API int nearkv_store_pin(struct nearkv_store* store, uint32_t namespace_number,
                                const struct iovec* keys, size_t key_count, uint32_t duration_ms,
                                uint64_t* lease, uint8_t* statuses);

/* -ENOENT if the lease has ended. */
NEARKV_API int nearkv_store_unpin(struct nearkv_store* store, uint64_t lease);

/* Most bytes that a tenant's objects may hold; evicts what is over it. */
NEARKV_API int nearkv_store_set_quota(struct nearkv_store* store, uint16_t tenant, uint64_t bytes);

/* Whether bytes of a tenant's objects that are stored from now on are wiped when they go. */
NEARKV_API int nearkv_store_set_wipe(struct nearkv_store* store, uint16_t tenant, uint8_t wipe);

/* From now on keeps the last `most` changes for take_events; 0: none. */
NEARKV_API int nearkv_store_watch(struct nearkv_store* store, size_t most);

/* Changes since the last call, in their order. */
NEARKV_API int nearkv_store_take_events(struct nearkv_store* store, struct nearkv_events* events);
NEARKV_API void nearkv_events_free(struct nearkv_events* events);

/* One for each tier, the fastest first: the first `room`; `count` is how many there are. */
NEARKV_API int nearkv_store_tier_stats(const struct nearkv_store* store,
                                       struct nearkv_object_stats* stats, size_t room,
                                       size_t* count);

NEARKV_API int nearkv_store_stats(const struct nearkv_store* store,
                                  struct nearkv_object_stats* stats);

/* The first `room` namespaces; `count` is how many there are. */
NEARKV_API int nearkv_store_namespaces(const struct nearkv_store* store,
                                       struct nearkv_namespace_info* infos, size_t room,
                                       size_t* count);

/* What one object's record says. -ENOENT. */
NEARKV_API int nearkv_store_describe(struct nearkv_store* store, uint32_t namespace_number,
                                     const void* key, size_t key_bytes,
                                     struct nearkv_object_info* info);

/* Up to `room` objects from record `first` on, in the order of their records; `count`: how many. */
NEARKV_API int nearkv_store_list(const struct nearkv_store* store, uint32_t first,
                                 struct nearkv_object_info* infos, size_t room, size_t* count);

/* Reads up to `most` records' objects from `first` on and checks every byte. `progress` is added
 * to, but for `next`: begin with zeros. */
NEARKV_API int nearkv_store_verify(struct nearkv_store* store, uint32_t first, uint32_t most,
                                   struct nearkv_verify_progress* progress);

/* Moves objects together so that slabs become free, up to about `most_bytes`. 0 `moved_bytes`:
 * nothing is to be gained. */
NEARKV_API int nearkv_store_defragment(struct nearkv_store* store, uint64_t most_bytes,
                                       uint64_t* moved_bytes);

#ifdef __cplusplus
}
#endif

#endif /* NEARKV_STORE_H_ */
