/* The C API: devices and pools for callers that are not C++. Objects by key: nearkv_store.h.
 *
 * Every function returns 0 or a negative errno; where many mistakes share one errno, the text from
 * `reason` or nearkv_pool_last_error() tells them apart. Structures say what `nearkv/pool.hpp` says
 * of its own: same names, same units, same meaning. Fill them with the *_init functions, then
 * change what differs, so that fields added later get their defaults.
 *
 * Thread safety: all calls on one pool, which run one at a time. Handles are closed by the caller,
 * a device after or before its pools: it lives as long as they do.
 */
#ifndef NEARKV_H_
#define NEARKV_H_

#include <stddef.h>
#include <stdint.h>

#include "nearkv/api.h"
#include "nkv_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nearkv_device;
struct nearkv_pool;

struct nearkv_shape {
  uint16_t layers;
  uint16_t kv_heads;
  uint16_t head_dim;
  uint16_t value_dim;
  uint8_t dtype;  /* enum nkv_dtype; bf16, fp16, fp8 or int8 */
  uint8_t k_form; /* enum nkv_row_form */
  uint8_t v_form;
};

struct nearkv_pool_options {
  struct nearkv_shape shape;
  uint32_t max_sequences;
  uint64_t staging_bytes; /* 0: chosen by size */
  uint32_t timeout_ms;    /* longest wait for one batch of commands */
  uint8_t codes;          /* 1: pages get codes, by which TAIL and BOUNDED read; 0: none */
};

/* Rows in host memory: token t of KV head h is at first + t * token_stride_bytes + h *
 * head_stride_bytes. */
struct nearkv_rows {
  const void* first;
  size_t token_stride_bytes;
  size_t head_stride_bytes;
};

/* What is made of compressed pages. Where any are, a query that skips or decodes them takes no
 * `tokens` and no `window`. */
enum nearkv_cold_pages {
  NEARKV_COLD_PAGES_REFUSE, /* the call fails with -EUCLEAN */
  NEARKV_COLD_PAGES_SKIP,   /* they are left out, as if their tokens were not there */
  NEARKV_COLD_PAGES_DECODE  /* they are decoded near the data for this call, and stay compressed */
};

struct nearkv_attend_options {
  float scale;
  float soft_cap;    /* 0: none */
  uint32_t tokens;   /* causal limit; 0: all */
  uint32_t window;   /* sliding window; 0: none */
  uint8_t sinks;     /* first tokens that the window does not hide */
  uint8_t mode;      /* enum nkv_attend_mode */
  uint8_t byte_cap;  /* BOUNDED: in 1/256 of a dense read; 0: none */
  uint8_t z16;       /* BOUNDED: standard deviations, in sixteenths; 0: the usual */
  uint16_t top_k;    /* TAIL */
  uint8_t cold;      /* enum nearkv_cold_pages */
  uint8_t if_faster; /* 1: BOUNDED and TAIL only while measured to be faster than DENSE */
  float error;       /* BOUNDED */
};

struct nearkv_attend_request {
  uint64_t sequence;
  uint16_t layer;
  uint16_t kv_head;
  uint16_t rows;       /* query heads of the KV head times new tokens */
  uint8_t query_dtype; /* bf16, fp16 or fp32 */
  const void* query;   /* [rows][head_dim] */
  float* output;       /* [rows][value_dim] */
  float* lse;          /* [rows], natural; -inf where nothing is visible */
  float* bound;        /* [rows], or null */
};

struct nearkv_top_k_request {
  uint64_t sequence;
  uint16_t layer;
  uint16_t kv_head;
  uint16_t rows;
  uint16_t top_k;
  uint8_t query_dtype;
  uint8_t mode; /* enum nkv_select, 0: FULL; not INDEXER */
  uint8_t z16;  /* STATISTICAL: standard deviations, in sixteenths; 0: the usual */
  uint8_t sinks;
  uint8_t cold; /* enum nearkv_cold_pages */
  uint32_t tokens;
  uint32_t window;
  float scale;
  const void* query;
  uint32_t* ids;    /* [rows][top_k], all ones beyond counts[row] */
  float* scores;    /* [rows][top_k], -inf there */
  uint32_t* counts; /* [rows] */
};

struct nearkv_stats {
  uint64_t commands;
  uint64_t link_to_device_bytes;
  uint64_t link_from_device_bytes;
  uint64_t stream_bytes;
  uint64_t refine_bytes;
  uint64_t exact_bytes;
  uint64_t value_bytes;
  uint64_t device_ticks;
  uint64_t nonfinite;
  uint64_t dense_fallbacks;
};

struct nearkv_usage {
  uint64_t total_bytes;
  uint64_t page_bytes;
  uint64_t pages;
  uint64_t sequences;
  uint64_t damaged_pages;
};

/* Opens a device by URI ("cpu:", "model:?memory=256MiB"; nearkv/device.hpp has the syntax).
 * `reason`, if not null, receives a zero-terminated line that says what to do about a failure. */
NEARKV_API int nearkv_device_open(const char* uri, struct nearkv_device** device, char* reason,
                                  size_t reason_bytes);
NEARKV_API void nearkv_device_close(struct nearkv_device* device);

/* bf16 keys and values in row form DELTA4, one layer, one KV head, head_dim 128. */
NEARKV_API void nearkv_pool_options_init(struct nearkv_pool_options* options);

/* Formats the device's memory, or takes up what an earlier process left there. */
NEARKV_API int nearkv_pool_create(struct nearkv_device* device,
                                  const struct nearkv_pool_options* options,
                                  struct nearkv_pool** pool, char* reason, size_t reason_bytes);
NEARKV_API int nearkv_pool_open(struct nearkv_device* device,
                                const struct nearkv_pool_options* options,
                                struct nearkv_pool** pool, char* reason, size_t reason_bytes);
NEARKV_API void nearkv_pool_close(struct nearkv_pool* pool);

/* What keys of one (layer, KV head) are multiplied by before they are coded, `gains` [head_dim] in
 * sixteenths of octaves: until pages have others, which is -EEXIST. */
NEARKV_API int nearkv_set_gains(struct nearkv_pool* pool, uint16_t layer, uint16_t kv_head,
                                const int8_t* gains);
/* -ENOENT as long as none were set and no page has any. */
NEARKV_API int nearkv_gains(struct nearkv_pool* pool, uint16_t layer, uint16_t kv_head,
                            int8_t* gains);

NEARKV_API int nearkv_create_sequence(struct nearkv_pool* pool, uint64_t sequence);
NEARKV_API int nearkv_fork(struct nearkv_pool* pool, uint64_t parent, uint64_t child,
                           uint32_t tokens);
NEARKV_API int nearkv_drop(struct nearkv_pool* pool, uint64_t sequence);

/* Adds `tokens` tokens, a multiple of 64, to one layer. 0: they are in the pool and stay there. */
NEARKV_API int nearkv_append(struct nearkv_pool* pool, uint64_t sequence, uint16_t layer,
                             const struct nearkv_rows* keys, const struct nearkv_rows* values,
                             uint32_t tokens);

NEARKV_API int nearkv_tokens(struct nearkv_pool* pool, uint64_t sequence, uint16_t layer,
                             uint32_t* tokens);

/* Dense attention, scale 1, that refuses compressed pages. */
NEARKV_API void nearkv_attend_options_init(struct nearkv_attend_options* options);

NEARKV_API int nearkv_attend(struct nearkv_pool* pool, const struct nearkv_attend_request* requests,
                             size_t count, const struct nearkv_attend_options* options);
NEARKV_API int nearkv_top_k(struct nearkv_pool* pool, const struct nearkv_top_k_request* request);

/* Rows of chosen tokens; `keys` or `values` may be null. Sizes: count * dim * element size. */
NEARKV_API int nearkv_gather(struct nearkv_pool* pool, uint64_t sequence, uint16_t layer,
                             uint16_t kv_head, const uint32_t* ids, uint32_t count, void* keys,
                             void* values);
NEARKV_API int nearkv_read(struct nearkv_pool* pool, uint64_t sequence, uint16_t layer,
                           uint16_t kv_head, uint32_t first, uint32_t count, void* keys,
                           void* values);

/* Verifies every checksum of a sequence; `pages` receives how many pages were found sound. */
NEARKV_API int nearkv_scrub(struct nearkv_pool* pool, uint64_t sequence, uint64_t* pages);

/* Cools a sequence's pages into a codec (enum nkv_codec), or warms them with NKV_CODEC_NONE. While
 * they are compressed they cannot be read, and only queries that say so (enum nearkv_cold_pages)
 * attend to them. -EOPNOTSUPP: the device lacks a codec. */
NEARKV_API int nearkv_transcode(struct nearkv_pool* pool, uint64_t sequence, uint8_t codec);

/* The same of `count` chosen pages of one (layer, KV head), by number; `moved` receives how many
 * were rewritten. One that a fork shares is warmed, but not cooled. -EINVAL for a page that there
 * is not. */
NEARKV_API int nearkv_transcode_pages(struct nearkv_pool* pool, uint64_t sequence, uint16_t layer,
                                      uint16_t kv_head, const uint32_t* pages, uint32_t count,
                                      uint8_t codec, uint32_t* moved);

/* The codec of each page of one (layer, KV head), the first `room` of them; `pages` receives how
 * many pages there are. `codecs` may be null if `room` is 0. */
NEARKV_API int nearkv_codecs(struct nearkv_pool* pool, uint64_t sequence, uint16_t layer,
                             uint16_t kv_head, uint8_t* codecs, uint32_t room, uint32_t* pages);

/* A zero-terminated line about the last call on the pool that failed, cut to `bytes`. */
NEARKV_API void nearkv_pool_last_error(struct nearkv_pool* pool, char* text, size_t bytes);
NEARKV_API void nearkv_pool_stats(struct nearkv_pool* pool, struct nearkv_stats* stats);
NEARKV_API void nearkv_pool_usage(struct nearkv_pool* pool, struct nearkv_usage* usage);

#ifdef __cplusplus
}
#endif

#endif /* NEARKV_H_ */
