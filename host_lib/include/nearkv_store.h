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
  uint32_t workers;     /* threads that run jobs; whoever waits for a job helps */
  uint32_t patience_ms; /* how long a set waits for leases to free room */
  const char* eviction; /* lru, lfu, arc, s3fifo or chain_lhd */
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
  const struct iovec* segments; /* SET reads them, GET writes them */
  size_t segment_count;
  uint16_t first_part; /* GET, of an object that has parts */
  uint16_t part_count; /* 0: all of it */
};

enum nearkv_job_kind {
  NEARKV_JOB_GET = 0,    /* copies objects out, each verified */
  NEARKV_JOB_SET = 1,    /* copies objects in; each is there, whole, once its status is OK */
  NEARKV_JOB_ERASE = 2,  /* deletes objects; BUSY for leased ones */
  NEARKV_JOB_EXISTS = 3, /* OK or NOT_FOUND for each key */
};

/* A batch. Keys and lists of segments are copied; the memory that segments name stays the caller's
 * and must live until the job is over. */
struct nearkv_job {
  uint8_t kind; /* enum nearkv_job_kind */
  uint32_t namespace_number;
  const struct nearkv_item* items;
  size_t item_count;
  /* SET only */
  const void* parent; /* with chain: the key of the block before item 0; null: none */
  size_t parent_bytes;
  uint8_t chain;     /* item i + 1 is the block after item i in one prefix */
  uint8_t overwrite; /* replace what is there; else an existing object counts as set */
  uint16_t parts;    /* equal parts (layers) that can be read alone; 0: none */
  uint32_t age_s;    /* may go when older; 0: never by age */
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

struct nearkv_object_stats {
  uint64_t total_bytes;
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
  uint64_t quarantined;
};

NEARKV_API void nearkv_store_options_init(struct nearkv_store_options* options);

/* Formats memory of a device URI ("cpu:PATH?memory=8GiB"), or takes up what an earlier process left
 * there. */
NEARKV_API int nearkv_store_create(const char* uri, const struct nearkv_store_options* options,
                                   struct nearkv_store** store, char* reason, size_t reason_bytes);
NEARKV_API int nearkv_store_open(const char* uri, const struct nearkv_store_options* options,
                                 struct nearkv_store** store, char* reason, size_t reason_bytes);

/* Finishes the items that are being copied and drops the jobs that are not over. */
NEARKV_API void nearkv_store_close(struct nearkv_store* store);

/* Tenant 0, rank 0, group 0, empty texts. */
NEARKV_API void nearkv_namespace_init(struct nearkv_namespace* name);

/* The namespace's number, for jobs; made if it is new. */
NEARKV_API int nearkv_store_open_namespace(struct nearkv_store* store,
                                           const struct nearkv_namespace* name, uint32_t* number);

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

/* Items that have not begun end CANCELLED; those being copied are finished. -ENOENT: it is over. */
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

NEARKV_API int nearkv_store_stats(const struct nearkv_store* store,
                                  struct nearkv_object_stats* stats);

/* The first `room` namespaces; `count` is how many there are. */
NEARKV_API int nearkv_store_namespaces(const struct nearkv_store* store,
                                       struct nearkv_namespace_info* infos, size_t room,
                                       size_t* count);

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
