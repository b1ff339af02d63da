/* Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit. */
#ifndef NKV_ABI_H
#define NKV_ABI_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#endif

/** IEEE 754 binary32; in the kernel, which has no floating point, its bits. */
#ifdef __KERNEL__
typedef uint32_t nkv_f32;
#else
typedef float nkv_f32;
#endif

#ifdef __cplusplus
#define NKV_STATIC_ASSERT(condition, message) static_assert(condition, message)
#else
#define NKV_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#endif
#define NKV_ASSERT_BYTES(name, bytes) \
  NKV_STATIC_ASSERT(sizeof(struct nkv_##name) == (bytes), "size of nkv_" #name)
#define NKV_ASSERT_OFFSET(name, field, bytes) \
  NKV_STATIC_ASSERT(offsetof(struct nkv_##name, field) == (bytes), \
                    "offset of nkv_" #name "." #field)

/** NearKV device contract, version 3.0. */
#define NKV_ABI_ID 0x00564b5241454e01ull /**< Register ID. */
#define NKV_ABI_MAJOR 3
#define NKV_ABI_MINOR 0
#define NKV_PAGE_MAGIC 0x504b564eu /**< Page header. */
#define NKV_PAGE_VERSION 2

/* Limits */
#define NKV_PAGE_TOKENS 64 /**< [tokens] Tokens of one closed page. */
/** [bytes] One memory burst: the grain in which a device reads and in which traffic is counted. */
#define NKV_BURST_BYTES 64
#define NKV_COMMAND_BYTES 64 /**< [bytes] Every command, and every slot of a ring. */
/**
 * [bytes] Device memory goes round a card's slices in granules of so many bytes, which are the
 * lines that its CXL IP deals them.
 */
#define NKV_SLICE_GRANULE_BYTES 64
/** [bytes] A page starts at a multiple of this; `page_entry.page` counts in it. */
#define NKV_PAGE_GRAIN_BYTES 256
/**
 * [tokens] Longest page list of one command. Longer contexts take several commands, merged by (O,
 * LSE).
 */
#define NKV_MAX_TOKENS 1048576
/** [rows] Most query rows (query heads of a KV head, times new tokens) in one command. */
#define NKV_MAX_GROUP 128
/** [channels] Widest key row: an MLA latent of 512 plus its 64 rotary channels. */
#define NKV_MAX_HEAD_DIM 576
#define NKV_MAX_TOP_K 4096 /**< [tokens] Largest k of TOPK. */
#define NKV_MAX_QUEUES 16 /**< [queues] Queue register blocks in the map. */
/**
 * [bytes] From a queue's doorbell in device memory to the next's: a page of a host, which can give
 * each to another process.
 */
#define NKV_DOORBELL_STRIDE_BYTES 4096
#define NKV_ERROR_ENTRIES 16 /**< [entries] Failed commands that a device remembers. */
#define NKV_HOTNESS_WORDS 2048 /**< [words] Room for the registers of a hotness monitoring unit. */
/**
 * [us] For so long at the least after a doorbell a device waits for what it told of and what is not
 * in the submission ring yet.
 */
#define NKV_SLOT_PATIENCE_US 500
#define NKV_MIN_RING_ENTRIES 16 /**< [entries] Smallest ring. */
#define NKV_MAX_RING_ENTRIES 4096 /**< [entries] Largest ring. Ring sizes are powers of two. */
#define NKV_EXCEPTIONS 16 /**< [entries] Room for DELTA4 exceptions in a page, per tensor. */
#define NKV_KEY_CODE_PLANES 4 /**< [planes] Bit planes of the codes of K. */
#define NKV_VALUE_CODE_PLANES 3 /**< [planes] Bit planes of the codes of V. */
#define NKV_SIGN_SETS 16 /**< [sets] Sign sets of codes. */
/**
 * [pages] Pages in a row that share a sign set, and with it a transformed query, if APPEND does not
 * say.
 */
#define NKV_SIGN_RUN 8
/**
 * [sixteenths] Standard deviations behind the bound of ATTEND in mode BOUNDED, if the command does
 * not say.
 */
#define NKV_USUAL_BOUND_Z 26
/**
 * [sixteenths] Standard deviations that TOPK in mode STATISTICAL allows for, if the command does
 * not say.
 */
#define NKV_USUAL_SEARCH_Z 96
#define NKV_POOL_MAGIC 1280723790 /**< First word of a pool: 'NKVL'. */
#define NKV_POOL_RING_ENTRIES 64 /**< [entries] Entries of the rings of a pool's queue. */
/** [bytes] Where the second copy of a pool's header starts. */
#define NKV_POOL_HEADER_COPY_AT 2048
#define NKV_POOL_VERSION 5 /**< Version of the pool's structures and of the pages in it. */
/** `slab_record.slot_bytes` of a slab that holds objects: no page is ever looked for in it. */
#define NKV_SLAB_OF_OBJECTS 1
/** [bytes] Space for objects is counted in these, from the start of the pool. */
#define NKV_OBJECT_GRAIN_BYTES 4096
/**
 * [bytes] Largest object: its extents name it in slabs that do not touch, with room for as many
 * pieces.
 */
#define NKV_MAX_OBJECT_BYTES 536870912
/** [bytes] Keys up to this long are kept as they are; of a longer one, its SHA-256. */
#define NKV_OBJECT_KEY_BYTES 32
#define NKV_SEAL_NONCE_BYTES 24 /**< [bytes] Nonce of a sealed part. */
#define NKV_SEAL_TAG_BYTES 16 /**< [bytes] Authentication tag of a sealed part. */
/** [parts] Most parts (layers) of an object, each with a checksum of its own. */
#define NKV_MAX_OBJECT_PARTS 1024
#define NKV_RECORD_EXTENTS 5 /**< [extents] Extents that fit an object's record. */
/**
 * [extents] Most extents of an object; beyond RECORD_EXTENTS they are listed in a grain of their
 * own.
 */
#define NKV_MAX_OBJECT_EXTENTS 511
/**
 * [bytes] Where in its grain the checksum of a list of extents stands, over all bytes before it.
 */
#define NKV_EXTENT_LIST_CRC_AT 4092
/** [bytes] Most bytes that a namespace's model, dtype and layout have together. */
#define NKV_NAMESPACE_NAME_BYTES 960
/** [bytes] Room for those, rank and group, as a text for people. */
#define NKV_NAMESPACE_TEXT_BYTES 1024
/**
 * [bytes] What one record of the namespace table holds of a name; a longer one goes on in further
 * records.
 */
#define NKV_NAMESPACE_RECORD_TEXT_BYTES 208
#define NKV_SHARE_MAGIC 1398164302 /**< First word of a shared region: 'NKVS'. */
#define NKV_SHARE_VERSION 1 /**< Version of the shared structures. */
/** First word of each message between a daemon and its clients: 'NVKD'. */
#define NKV_DAEMON_MAGIC 1145787982
/** Version of all that a daemon and its clients share. Both refuse another. */
#define NKV_DAEMON_VERSION 2
/** [entries] Entries of a client's rings: most requests that it may have in flight. */
#define NKV_DAEMON_RING_ENTRIES 256
#define NKV_DAEMON_REASON_BYTES 384 /**< [bytes] Room for why a client was refused. */
#define NKV_DAEMON_NAME_BYTES 32 /**< [bytes] Room for a tenant's name. */
/** [regions] Most regions of memory of one client, its window's data area among them. */
#define NKV_DAEMON_MAX_REGIONS 64
/** First word of each message between stores of two machines: 'NVKR'. */
#define NKV_REMOTE_MAGIC 1380669006
#define NKV_REMOTE_VERSION 3 /**< Version of all that the two share. Both refuse another. */
#define NKV_REMOTE_MAX_RUNS 64 /**< [runs] Most runs of bytes that one message carries. */
/** [messages] How far a message may be ahead of the first one that has not landed yet. */
#define NKV_REMOTE_MAX_UNLANDED 8192
/** [bytes] Random bytes that each side contributes to a proof. */
#define NKV_REMOTE_NONCE_BYTES 32
#define NKV_REMOTE_PROOF_BYTES 32 /**< [bytes] HMAC-SHA256. */

/* Number formats */
/** Query element: signed integer, the head's largest exponent at the top. */
#define NKV_QUERY_BITS 24
/** Key element in the exact stage: signed integer, the list's largest exponent at the top. */
#define NKV_KEY_BITS 27
/** Value element: signed integer, the list's largest exponent at the top. */
#define NKV_VALUE_BITS 25
#define NKV_LOGIT_FRACTION_BITS 16 /**< Fraction bits of a logit in base 2. */
#define NKV_WEIGHT_BITS 18 /**< Softmax weight mantissa: 1.17, before its right shift. */
/** Leading fraction bits that index the exp2 table; the rest interpolates. */
#define NKV_EXP2_TABLE_BITS 6

/** What a command does. */
enum nkv_opcode {
  NKV_OPCODE_NOP = 0, /**< Nothing; completes. */
  NKV_OPCODE_APPEND = 1, /**< Build pages from K and V rows. */
  NKV_OPCODE_READ = 2, /**< Give K or V rows back, exact or as their codes tell them. */
  NKV_OPCODE_TOPK = 3, /**< Score a group of queries against a page list and return the best k. */
  NKV_OPCODE_ATTEND = 4, /**< softmax(q K) V over a page list: (O, LSE). */
  NKV_OPCODE_GATHER = 5, /**< Pack chosen K or V rows for the host. */
  NKV_OPCODE_TRANSCODE = 6, /**< Rewrite pages with another codec. */
  NKV_OPCODE_SCRUB = 7, /**< Verify every checksum of pages. */
  NKV_OPCODE_ERASE = 8, /**< Wipe pages. */
  NKV_OPCODE_COPY = 9, /**< Copy pages to other places. */
};

/**
 * How a command ended. The errno is what the C API and the driver return, negated; the message is
 * what a person reads.
 */
enum nkv_status {
  NKV_STATUS_OK = 0, /**< done */
  /** the opcode is unknown to this device; check that library and device have the same ABI */
  NKV_STATUS_BAD_OPCODE = 1,
  /** a command field is out of range; detail is the field's byte offset */
  NKV_STATUS_BAD_FIELD = 2,
  /** an address lies outside the queue's window; detail is the address */
  NKV_STATUS_ADDRESS_FAULT = 3,
  /**
   * the page was freed or rewritten since its entry was made; detail is the entry's index; look the
   * sequence up again
   */
  NKV_STATUS_STALE_PAGE = 4,
  /** a page's shape or format does not fit the command; detail is the entry's index */
  NKV_STATUS_BAD_PAGE = 5,
  /**
   * a checksum is wrong, so the page or object was not used; detail is the entry's index; drop the
   * sequence or object and recompute it
   */
  NKV_STATUS_CORRUPT = 6,
  /**
   * the memory reported poison; detail is the entry's index; drop the sequence or object and
   * recompute it
   */
  NKV_STATUS_POISON = 7,
  /**
   * these rows do not fit the compact row form; detail is the page's index; append it with row form
   * RAW
   */
  NKV_STATUS_PAGE_OVERFLOW = 8,
  NKV_STATUS_BAD_QUERY = 9, /**< the query holds a NaN or an infinity; detail is the row */
  NKV_STATUS_UNSUPPORTED = 10, /**< this device does not offer the requested mode; read FEATURES */
  /** a page is compressed; transcode it to codec NONE first; detail is the entry's index */
  NKV_STATUS_COLD_PAGE = 11,
  /** the device was reset while the command was in flight; submit it again */
  NKV_STATUS_ABORTED = 12,
  NKV_STATUS_INTERNAL = 13, /**< the device failed; read DEVICE_STATUS */
  /**
   * a doorbell told of a command that was not written to the ring in time; the completion's sq_head
   * tells which; write commands with the ring's phase, then ring
   */
  NKV_STATUS_NOT_WRITTEN = 14,
  NKV_STATUS_NO_DEVICE = 64, /**< no such device, or it cannot be opened */
  NKV_STATUS_BAD_URI = 65, /**< the device URI is malformed; see nearkv/device.hpp */
  /** the device speaks another ABI; rebuild the library or update the device */
  NKV_STATUS_BAD_ABI = 66,
  NKV_STATUS_BAD_ARGUMENT = 67, /**< an argument is out of range */
  /** the pool has no room left that may be used; drop or unpin something, or open a larger pool */
  NKV_STATUS_POOL_FULL = 68,
  NKV_STATUS_NOT_FOUND = 69, /**< no such sequence, object or namespace */
  NKV_STATUS_EXISTS = 70, /**< it exists already */
  NKV_STATUS_QUEUE_FULL = 71, /**< the queue is full; poll completions and submit again */
  NKV_STATUS_TIMEOUT = 72, /**< the device did not answer in time */
  /** the memory holds no NearKV pool, or one of another version; create it anew */
  NKV_STATUS_BAD_POOL = 73,
  NKV_STATUS_IO_ERROR = 74, /**< the operating system refused an operation on the pool's memory */
  NKV_STATUS_OUT_OF_MEMORY = 75, /**< not enough memory */
  NKV_STATUS_CODEC_ERROR = 76, /**< compressed data is damaged */
  NKV_STATUS_CANCELLED = 77, /**< the job was cancelled before this item began */
  NKV_STATUS_BUSY = 78, /**< the object is leased or being written; try again when that is over */
  /** the tenant's quota is used up by objects that cannot be evicted; unpin some or raise it */
  NKV_STATUS_QUOTA = 79,
  NKV_STATUS_DENIED = 80, /**< this client may not do that; see the permissions of its tenant */
  /** the daemon does not answer; start `nearkv serve`, or wait for its restart and try again */
  NKV_STATUS_NO_DAEMON = 81,
  /**
   * opened before this process was made by fork(), and of no use in it; open or connect again here
   */
  NKV_STATUS_FORKED = 82,
  /** the namespace's model, dtype and layout are too long together; they may have 960 bytes */
  NKV_STATUS_NAME_TOO_LONG = 83,
  /** the object is too large; it may have 536870912 bytes (512 MiB) */
  NKV_STATUS_OBJECT_TOO_LARGE = 84,
  /**
   * each namespace that may be there has objects or users; erase a namespace's objects and close
   * it, or raise max_namespaces: a tenant's in the daemon's configuration, a pool's when it is made
   */
  NKV_STATUS_NAMESPACES_FULL = 85,
  /**
   * the object does not fit the half of the window that carries bytes to the daemon; raise
   * window_bytes and the daemon's clients.window, or use memory of allocate()
   */
  NKV_STATUS_WINDOW_TOO_SMALL = 86,
  /** the other hosts hold this one for dead; drop its objects and join again */
  NKV_STATUS_FENCED = 88,
  NKV_STATUS_NOT_YET = 89, /**< other hosts have not answered yet; poll and call again */
};

/** Element type of rows that the host hands over. */
enum nkv_dtype {
  NKV_DTYPE_BF16 = 0, /**< bfloat16. */
  NKV_DTYPE_FP16 = 1, /**< IEEE binary16. */
  NKV_DTYPE_FP32 = 2, /**< IEEE binary32; queries only. */
  NKV_DTYPE_FP8_E4M3 = 3, /**< OCP FP8 E4M3FN: no infinities, NaN = S.1111.111. */
  NKV_DTYPE_FP8_E5M2 = 4, /**< OCP FP8 E5M2. */
  NKV_DTYPE_INT8 = 5, /**< Two's complement; the scale is the caller's. */
};

/** How a page stores the exact rows of a tensor. */
enum nkv_row_form {
  NKV_ROW_FORM_RAW = 0, /**< The source elements, unchanged. */
  /**
   * bf16 in 12 bits, lossless: a sign-and-mantissa byte and a 4-bit exponent below the channel's
   * largest; 0 is zero or an exception.
   */
  NKV_ROW_FORM_DELTA4 = 1,
  /** Not stored: no values, or values that are the leading channels of K (MLA). */
  NKV_ROW_FORM_NONE = 2,
};

/** Compression of a page's payload. Only pages of codec NONE can be attended to. */
enum nkv_codec {
  NKV_CODEC_NONE = 0, /**< Attendable. */
  NKV_CODEC_PLANES_LZ4 = 2, /**< Lossless: exponent-delta bit planes, LZ4. */
  NKV_CODEC_PLANES_ZSTD = 3, /**< Lossless: exponent-delta bit planes, ZSTD. */
  NKV_CODEC_INT8 = 4, /**< Lossy: per channel for K, per token for V. */
  NKV_CODEC_INT4 = 5, /**< Lossy: per channel for K, per token for V. */
  /** Lossy: E4M3 with a power-of-two scale per channel for K, per token for V. */
  NKV_CODEC_FP8 = 6,
};

/** How TOPK finds its tokens. */
enum nkv_select {
  /**
   * By codes: only rows are read that z-sigma bounds from codes leave in question, and the ids are
   * those of FULL but for a few. A list of pages without codes is answered as FULL does. Needs
   * feature CODES.
   */
  NKV_SELECT_STATISTICAL = 1,
  NKV_SELECT_FULL = 2, /**< Every row is read exactly. */
  /**
   * DSA lightning indexer: sum over heads of weight * relu(q k), one list for the whole group;
   * every row is read.
   */
  NKV_SELECT_INDEXER = 3,
};

/** What ATTEND reads. */
enum nkv_attend_mode {
  NKV_ATTEND_MODE_DENSE = 0, /**< Every visible token exactly. */
  /**
   * By codes: the best k tokens exactly, all others as their codes tell them. A list of pages
   * without codes is answered as DENSE does. Needs feature CODES.
   */
  NKV_ATTEND_MODE_TAIL = 1,
  /**
   * By codes: planes of codes and rows are read until the measured error is within `error`. A list
   * of pages without codes is answered as DENSE does. Needs feature CODES.
   */
  NKV_ATTEND_MODE_BOUNDED = 2,
};

/** Which rows READ and GATHER return. */
enum nkv_tensor {
  NKV_TENSOR_KEYS = 0, /**< K rows. */
  NKV_TENSOR_VALUES = 1, /**< V rows. */
  NKV_TENSOR_BOTH = 2, /**< All K rows, then all V rows. */
};

/** Life of a page slot. */
enum nkv_page_state {
  NKV_PAGE_STATE_FREE = 0, /**< Nothing to find here. */
  NKV_PAGE_STATE_CLOSED = 1, /**< Holds PAGE_TOKENS tokens and never changes. */
};

/** State of a sequence record. */
enum nkv_sequence_state {
  NKV_SEQUENCE_STATE_FREE = 0, /**< Nobody's. */
  NKV_SEQUENCE_STATE_ACTIVE = 1, /**< A sequence. */
  NKV_SEQUENCE_STATE_DROPPED = 2, /**< Dropped, but forks share its pages. */
};

/** State of an object's or a namespace's record. */
enum nkv_object_state {
  NKV_OBJECT_STATE_FREE = 0, /**< Nobody's. */
  NKV_OBJECT_STATE_LIVE = 1, /**< Complete, and there until deleted. */
  /** Its memory could not be read; never given out or used again. */
  NKV_OBJECT_STATE_POISONED = 2,
  NKV_OBJECT_STATE_DOOMED = 3, /**< Deleted; its bytes are wiped before its room is used again. */
  /** Of the namespace table: more of the name of the namespace with the same digest. */
  NKV_OBJECT_STATE_CONTINUED = 4,
};

/**
 * What a client asks of a daemon. Jobs, which can be cancelled, come first; the others are answered
 * at once.
 */
enum nkv_daemon_operation {
  NKV_DAEMON_OPERATION_GET = 0, /**< Job: copies objects out. */
  NKV_DAEMON_OPERATION_SET = 1, /**< Job: copies objects in. */
  NKV_DAEMON_OPERATION_ERASE = 2, /**< Job: deletes objects. */
  NKV_DAEMON_OPERATION_EXISTS = 3, /**< Job: OK or NOT_FOUND for each key. */
  NKV_DAEMON_OPERATION_SET_PARTS = 4, /**< Job: copies parts of objects in. */
  NKV_DAEMON_OPERATION_CANCEL = 16, /**< Ends the job whose tag is `argument`. */
  /**
   * Which keys are there: `value` of the completion counts them from the first on; one byte each to
   * the result.
   */
  NKV_DAEMON_OPERATION_LOOK_UP = 17,
  /** Length of the longest stored prefix of a chain of keys, as `value`. */
  NKV_DAEMON_OPERATION_MATCH_PREFIX = 18,
  NKV_DAEMON_OPERATION_TOUCH = 19, /**< Marks objects as used. */
  /** Leases objects for `argument` ns: the lease is `value`; one status each to the result. */
  NKV_DAEMON_OPERATION_PIN = 20,
  NKV_DAEMON_OPERATION_UNPIN = 21, /**< Ends the lease `argument`. */
  /** The request is a daemon_namespace; its number is `value`. */
  NKV_DAEMON_OPERATION_OPEN_NAMESPACE = 22,
  NKV_DAEMON_OPERATION_SET_QUOTA = 23, /**< Tenant `number` may hold `argument` bytes. */
  NKV_DAEMON_OPERATION_STATS = 24, /**< A daemon_store_stats to the result. */
  /** daemon_namespace_info [`count`] to the result, from the `number`-th on. */
  NKV_DAEMON_OPERATION_NAMESPACES = 25,
  /** daemon_object_info [`count`] to the result, from record `number` on. */
  NKV_DAEMON_OPERATION_LIST = 26,
  /**
   * Checks up to `items` records from record `number` on: a daemon_verify_progress to the result.
   */
  NKV_DAEMON_OPERATION_VERIFY = 27,
  /** Moves up to about `argument` bytes; what it moved is `value`. */
  NKV_DAEMON_OPERATION_DEFRAGMENT = 28,
  /** daemon_tenant_info [`count`] to the result, from the `number`-th on. */
  NKV_DAEMON_OPERATION_TENANTS = 29,
  /** daemon_client_info [`count`] to the result, from the `number`-th on. */
  NKV_DAEMON_OPERATION_CLIENTS = 30,
  /** Tenant `number`: whether (`argument`) what is stored from now on is wiped when it goes. */
  NKV_DAEMON_OPERATION_SET_WIPE = 31,
  /** daemon_store_stats [`count`] to the result, one for each tier, the fastest first. */
  NKV_DAEMON_OPERATION_TIER_STATS = 32,
  /**
   * daemon_object_info [`count`] to the result: what would be evicted next, about `argument` bytes
   * of it.
   */
  NKV_DAEMON_OPERATION_COLDEST = 33,
  /** The request is a daemon_namespace_info of whichever store; its number here is `value`. */
  NKV_DAEMON_OPERATION_ADOPT_NAMESPACE = 34,
  /**
   * From now on keeps the last `argument` changes in namespaces that the client has opened; an
   * administrator's, in all. 0: none.
   */
  NKV_DAEMON_OPERATION_WATCH = 35,
  /**
   * daemon_event [`count`] to the result, the oldest first; `value`: how many more there were than
   * fit.
   */
  NKV_DAEMON_OPERATION_TAKE_EVENTS = 36,
  /** daemon_object_info of the one key to the result. */
  NKV_DAEMON_OPERATION_DESCRIBE_OBJECT = 37,
  /** Undoes OPEN_NAMESPACE or ADOPT_NAMESPACE of namespace `number`. */
  NKV_DAEMON_OPERATION_CLOSE_NAMESPACE = 38,
};

/** What a message on a daemon's socket is. */
enum nkv_daemon_message {
  NKV_DAEMON_MESSAGE_HELLO = 1, /**< The client's first. */
  NKV_DAEMON_MESSAGE_WELCOME = 2, /**< The daemon's answer to it. */
  /** The client brings a memfd, sealed against shrinking, as a region. */
  NKV_DAEMON_MESSAGE_REGISTER = 3,
  NKV_DAEMON_MESSAGE_UNREGISTER = 4, /**< The client takes a region back. */
  NKV_DAEMON_MESSAGE_REPLY = 5, /**< The daemon's answer to both. */
};

/** What has become of an object. */
enum nkv_store_event {
  NKV_STORE_EVENT_STORED = 0, /**< It is there. */
  NKV_STORE_EVENT_EVICTED = 1, /**< It had to make room, or was too old. */
  NKV_STORE_EVENT_ERASED = 2, /**< A client erased it. */
  NKV_STORE_EVENT_DAMAGED = 3, /**< Its checksum failed, or its memory reported poison. */
};

/**
 * What a message between stores of two machines is. The first four open a connection, over TCP, in
 * this order.
 */
enum nkv_remote_kind {
  NKV_REMOTE_KIND_HELLO = 1, /**< The client's first: its nonce. */
  NKV_REMOTE_KIND_CHALLENGE = 2, /**< The server's nonce. */
  NKV_REMOTE_KIND_PROOF = 3, /**< The client's proof, and its UCX worker's address. */
  NKV_REMOTE_KIND_WELCOME = 4, /**< The server's answer: its proof and its address, or why not. */
  /** Bytes for the other side's data area: daemon_segment [`runs`] follow in the header. */
  NKV_REMOTE_KIND_DATA = 5,
  /** A daemon_submission follows in the header; the request is the message's data. */
  NKV_REMOTE_KIND_SUBMISSION = 6,
  /** A daemon_completion follows in the header; the result is the message's data. */
  NKV_REMOTE_KIND_COMPLETION = 7,
};

/** What an entry of a host's log says. */
enum nkv_share_entry_kind {
  /** An object, or the next version of a mutable one, can be read. */
  NKV_SHARE_ENTRY_KIND_PUBLISH = 1,
  /** An object is gone; its extents are reused once nobody can be reading them. */
  NKV_SHARE_ENTRY_KIND_REMOVE = 2,
  NKV_SHARE_ENTRY_KIND_TRANSFER = 3, /**< Extents belong to another host from here on. */
};

/** What one host asks of another, or answers. */
enum nkv_share_message_kind {
  NKV_SHARE_MESSAGE_KIND_READ = 1, /**< To the home: let me read the object until further notice. */
  /** To the home: let me write the next version, of `length` bytes. */
  NKV_SHARE_MESSAGE_KIND_WRITE = 2,
  NKV_SHARE_MESSAGE_KIND_GRANT_READ = 3, /**< From the home: `version` is valid until INVALIDATE. */
  /** From the home: nobody reads the object; write `version` to `first_extent`. */
  NKV_SHARE_MESSAGE_KIND_GRANT_WRITE = 4,
  NKV_SHARE_MESSAGE_KIND_INVALIDATE = 5, /**< From the home: stop reading. */
  NKV_SHARE_MESSAGE_KIND_INVALIDATED = 6, /**< To the home: I have stopped. */
  NKV_SHARE_MESSAGE_KIND_WRITTEN = 7, /**< To the home: `version` is in memory; publish it. */
  NKV_SHARE_MESSAGE_KIND_DONE = 8, /**< From the home: `version` is published. */
  NKV_SHARE_MESSAGE_KIND_ASK = 9, /**< To a neighbour: lend me `length` extents. */
};

/** Options of a submission. */
#define NKV_DAEMON_FLAG_CHAIN (1u << 0) /**< SET: each item is the block after the one before it. */
#define NKV_DAEMON_FLAG_OVERWRITE (1u << 1) /**< SET: replace what is there. */
/** The completion makes the client's descriptor readable, whether it sleeps or not. */
#define NKV_DAEMON_FLAG_NOTIFY (1u << 2)
#define NKV_DAEMON_FLAG_QUIET (1u << 3) /**< GET: no use that eviction or statistics should see. */
#define NKV_DAEMON_FLAG_KEEP (1u << 4) /**< SET: nobody has to make room. */
#define NKV_DAEMON_FLAG_ALL 0x1fu

/** How an object is stored. */
/** After the payload stands a CRC32C for each part, and `payload_crc` is of those. */
#define NKV_OBJECT_FLAG_PARTS (1u << 0)
/** A block of a prefix: `parent` is the one before it, 0 for the first. */
#define NKV_OBJECT_FLAG_CHAINED (1u << 1)
#define NKV_OBJECT_FLAG_WIPE (1u << 2) /**< Its bytes are wiped when it goes. */
/**
 * The payload is encrypted: after it stands an object_seal for each part, or one, and `payload_crc`
 * is of those.
 */
#define NKV_OBJECT_FLAG_SEALED (1u << 3)
#define NKV_OBJECT_FLAG_ALL 0xfu

/** Options of ATTEND. */
#define NKV_ATTEND_FLAG_OUTPUT_BF16 (1u << 0) /**< O is bf16; fp32 otherwise. */
#define NKV_ATTEND_FLAG_LSE_BASE2 (1u << 1) /**< LSE is a base-2 logarithm; natural otherwise. */
#define NKV_ATTEND_FLAG_ALL 0x3u

/** Options of APPEND. */
/** Each key row is followed by its fp32 scale (fp8 indexer keys). */
#define NKV_APPEND_FLAG_KEY_SCALES (1u << 0)
/** The pages get codes, with the gains that stand behind the entries. */
#define NKV_APPEND_FLAG_CODES (1u << 1)
#define NKV_APPEND_FLAG_ALL 0x3u

/** What a page carries besides its rows. */
#define NKV_PAGE_FLAG_KEY_SCALES (1u << 0) /**< The KEY_SCALES array is present. */
/**
 * The arrays of codes, CODE_SUMMARY to K_GAINS, are present. To a device without feature CODE_PAGES
 * such a page is BAD_PAGE.
 */
#define NKV_PAGE_FLAG_CODES (1u << 1)
#define NKV_PAGE_FLAG_ALL 0x3u

/** Options of READ. */
/** Rows as the codes of `planes` planes tell them, in bf16. */
#define NKV_READ_FLAG_CODES (1u << 0)
#define NKV_READ_FLAG_ALL 0x1u

/**
 * What a slot of a submission ring says in its command's `flags`, where no command has an option.
 */
/**
 * The ring's current phase (1 in the first round, then alternating): the slot is written. A
 * doorbell may overtake the stores before it, so the device waits for this, SLOT_PATIENCE_US at the
 * least, and ends a command that does not come with NOT_WRITTEN. The host writes the first 32 bits
 * of a slot last. Commands lose it as they are fetched.
 */
#define NKV_SLOT_FLAG_PHASE (1u << 7)
#define NKV_SLOT_FLAG_ALL 0x80u

/** What a person should know of a result. */
/** Tokens whose key (or key scale, where it is used) holds a NaN or infinity took no part. */
#define NKV_COMPLETION_FLAG_NONFINITE (1u << 0)
/**
 * TAIL or BOUNDED was answered by a dense read: the list has no codes, codes could not say its
 * scores, or it was cheaper.
 */
#define NKV_COMPLETION_FLAG_DENSE_FALLBACK (1u << 1)
/** BOUNDED stopped at its byte cap; `bound` says what was reached. */
#define NKV_COMPLETION_FLAG_CAPPED (1u << 2)
#define NKV_COMPLETION_FLAG_ALL 0x7u

/** FEATURES register. */
#define NKV_FEATURE_INDEXER (1ull << 1) /**< DSA indexer selection. */
#define NKV_FEATURE_TRANSCODE (1ull << 4) /**< TRANSCODE, between the codecs that CODECS names. */
#define NKV_FEATURE_TICKS (1ull << 5) /**< Completions carry device time. */
#define NKV_FEATURE_QUEUE_WEIGHTS (1ull << 6) /**< Queues share the device by WEIGHT. */
#define NKV_FEATURE_INTERRUPTS (1ull << 7) /**< INTERRUPT_STATUS, INTERRUPT_MASK and COALESCE. */
#define NKV_FEATURE_COUNTERS (1ull << 8) /**< TOTAL registers of each queue. */
#define NKV_FEATURE_ERROR_LOG (1ull << 9) /**< ERROR registers. */
#define NKV_FEATURE_INLINE_CONTROL (1ull << 10) /**< INLINE registers. */
#define NKV_FEATURE_MEMORY_DOORBELLS (1ull << 11) /**< DOORBELL registers. */
#define NKV_FEATURE_HOTNESS (1ull << 12) /**< HOST_HOTNESS and NEAR_HOTNESS. */
/**
 * Pages with codes: flag CODES of APPEND, and such pages wherever their rows are used. A device
 * without it answers UNSUPPORTED.
 */
#define NKV_FEATURE_CODE_PAGES (1ull << 13)
/**
 * CODE_PAGES, and what is done by codes: flag CODES of READ, ATTEND's modes TAIL and BOUNDED,
 * STATISTICAL of TOPK, TRANSCODE of pages with codes. A device without it answers UNSUPPORTED.
 */
#define NKV_FEATURE_CODES (1ull << 14)
#define NKV_FEATURE_ALL 0x7ff2ull

/**
 * One page of a sequence, as page lists name it. The host writes `page` and `generation` before
 * APPEND, the device the exponents; entries may be copied freely (forks share pages).
 */
struct nkv_page_entry {
  uint32_t page; /**< Page address in the window, in units of PAGE_GRAIN_BYTES. */
  uint16_t generation; /**< Must equal the page header's. */
  /** Largest biased bf16 exponent among the page's finite keys; 0 if all are zero. */
  uint8_t k_exponent;
  uint8_t v_exponent; /**< The same of the values. */
};
#define NKV_PAGE_ENTRY_BYTES 8
NKV_ASSERT_BYTES(page_entry, 8);
NKV_ASSERT_OFFSET(page_entry, page, 0);
NKV_ASSERT_OFFSET(page_entry, generation, 4);
NKV_ASSERT_OFFSET(page_entry, k_exponent, 6);
NKV_ASSERT_OFFSET(page_entry, v_exponent, 7);

/**
 * Head of a page. The first 64 bytes are all of it that a scan of codes reads, the tenant among
 * them: a page that is touched tells its tenant. Without flag CODES what it says of codes is zero;
 * with it, a sign set that is none is BAD_PAGE to a command that uses codes. CRC32C (Castagnoli,
 * initial value and final inversion all ones) per array and per header half. Of the header, the
 * halves that a command relies on are compared at each use. Arrays are compared in one of two ways,
 * and a device's documentation says which: those that a command streams, each time; or all of a
 * page before the first command that uses it since it came in or the device was reset, and again
 * before a use when the last comparison is older than a stated time. Either way the page is
 * CORRUPT, and nothing of it is used. READ, GATHER, COPY, TRANSCODE and SCRUB compare each time.
 */
struct nkv_page_header {
  uint32_t magic; /**< PAGE_MAGIC. */
  uint16_t version; /**< Page layout version, PAGE_VERSION. */
  uint8_t state; /**< Written last when a page is published. [a value of page_state] */
  uint8_t flags; /**< What the page carries. [flags of page_flag] */
  uint8_t k_form; /**< Form of the key rows. [a value of row_form] */
  uint8_t v_form; /**< Form of the value rows. [a value of row_form] */
  uint8_t dtype; /**< Source element type. [a value of dtype] */
  uint8_t codec; /**< NONE, or how the payload is compressed. [a value of codec] */
  uint16_t head_dim; /**< Channels of a key row. */
  uint16_t value_dim; /**< Channels of a value row; 0 without values. */
  /** Incremented each time the slot is used; entries of an earlier use are refused. */
  uint16_t generation;
  uint16_t tokens; /**< PAGE_TOKENS. */
  uint8_t k_exponent; /**< As in the entry. */
  uint8_t v_exponent; /**< As in the entry. */
  uint8_t k_exceptions; /**< Entries used in K_EXCEPTIONS. */
  uint8_t v_exceptions; /**< Entries used in V_EXCEPTIONS. */
  uint64_t nonfinite; /**< Bit t: the key of token t holds a NaN or infinity. */
  uint16_t tenant; /**< Tenant of the queue that wrote it. */
  int16_t k_mean_power; /**< Codes: the means of gained K are in units of 2^this. */
  int16_t v_mean_power; /**< The same of V. */
  /** Codes: factor 15 of K, in sixteenths of octaves; 0 if no row has a residual. */
  int16_t k_top;
  int16_t v_top; /**< The same of V. */
  uint8_t sign_set; /**< Codes: 0 to SIGN_SETS - 1. */
  uint8_t reserved; /**< Zero. */
  uint32_t crc_code_summary; /**< CRC32C of CODE_SUMMARY. */
  uint32_t crc_k_signs; /**< CRC32C of K_SIGNS. */
  uint32_t crc_k_gains; /**< CRC32C of K_GAINS. Pages whose gains are equal have it in common. */
  uint32_t reserved2; /**< Zero. */
  uint32_t crc_hot; /**< CRC32C of bytes 0 to 59. */
  uint32_t crc_k_exponents; /**< CRC32C of K_EXPONENTS. */
  uint32_t crc_k_rows; /**< CRC32C of K_ROWS. */
  uint32_t crc_k_exceptions; /**< CRC32C of K_EXCEPTIONS. */
  uint32_t crc_key_scales; /**< CRC32C of KEY_SCALES. */
  uint32_t crc_v_exponents; /**< CRC32C of V_EXPONENTS. */
  uint32_t crc_v_rows; /**< CRC32C of V_ROWS. */
  /** CRC32C of V_EXCEPTIONS; for a compressed page, of the whole payload. */
  uint32_t crc_v_exceptions;
  uint32_t crc_k_codes; /**< CRC32C of K_CODES. */
  uint32_t crc_v_codes; /**< CRC32C of V_CODES. */
  uint32_t first_token; /**< Position of the page's first token in the sequence that wrote it. */
  uint64_t sequence_id; /**< That sequence. */
  uint16_t layer; /**< Layer of the model. */
  uint16_t kv_head; /**< KV head. */
  uint32_t payload_bytes; /**< Bytes after the header that are in use. */
  uint32_t reserved3; /**< Zero. */
  uint32_t crc_cold; /**< CRC32C of bytes 64 to 123. */
};
#define NKV_PAGE_HEADER_BYTES 128
NKV_ASSERT_BYTES(page_header, 128);
NKV_ASSERT_OFFSET(page_header, magic, 0);
NKV_ASSERT_OFFSET(page_header, version, 4);
NKV_ASSERT_OFFSET(page_header, state, 6);
NKV_ASSERT_OFFSET(page_header, flags, 7);
NKV_ASSERT_OFFSET(page_header, k_form, 8);
NKV_ASSERT_OFFSET(page_header, v_form, 9);
NKV_ASSERT_OFFSET(page_header, dtype, 10);
NKV_ASSERT_OFFSET(page_header, codec, 11);
NKV_ASSERT_OFFSET(page_header, head_dim, 12);
NKV_ASSERT_OFFSET(page_header, value_dim, 14);
NKV_ASSERT_OFFSET(page_header, generation, 16);
NKV_ASSERT_OFFSET(page_header, tokens, 18);
NKV_ASSERT_OFFSET(page_header, k_exponent, 20);
NKV_ASSERT_OFFSET(page_header, v_exponent, 21);
NKV_ASSERT_OFFSET(page_header, k_exceptions, 22);
NKV_ASSERT_OFFSET(page_header, v_exceptions, 23);
NKV_ASSERT_OFFSET(page_header, nonfinite, 24);
NKV_ASSERT_OFFSET(page_header, tenant, 32);
NKV_ASSERT_OFFSET(page_header, k_mean_power, 34);
NKV_ASSERT_OFFSET(page_header, v_mean_power, 36);
NKV_ASSERT_OFFSET(page_header, k_top, 38);
NKV_ASSERT_OFFSET(page_header, v_top, 40);
NKV_ASSERT_OFFSET(page_header, sign_set, 42);
NKV_ASSERT_OFFSET(page_header, reserved, 43);
NKV_ASSERT_OFFSET(page_header, crc_code_summary, 44);
NKV_ASSERT_OFFSET(page_header, crc_k_signs, 48);
NKV_ASSERT_OFFSET(page_header, crc_k_gains, 52);
NKV_ASSERT_OFFSET(page_header, reserved2, 56);
NKV_ASSERT_OFFSET(page_header, crc_hot, 60);
NKV_ASSERT_OFFSET(page_header, crc_k_exponents, 64);
NKV_ASSERT_OFFSET(page_header, crc_k_rows, 68);
NKV_ASSERT_OFFSET(page_header, crc_k_exceptions, 72);
NKV_ASSERT_OFFSET(page_header, crc_key_scales, 76);
NKV_ASSERT_OFFSET(page_header, crc_v_exponents, 80);
NKV_ASSERT_OFFSET(page_header, crc_v_rows, 84);
NKV_ASSERT_OFFSET(page_header, crc_v_exceptions, 88);
NKV_ASSERT_OFFSET(page_header, crc_k_codes, 92);
NKV_ASSERT_OFFSET(page_header, crc_v_codes, 96);
NKV_ASSERT_OFFSET(page_header, first_token, 100);
NKV_ASSERT_OFFSET(page_header, sequence_id, 104);
NKV_ASSERT_OFFSET(page_header, layer, 112);
NKV_ASSERT_OFFSET(page_header, kv_head, 114);
NKV_ASSERT_OFFSET(page_header, payload_bytes, 116);
NKV_ASSERT_OFFSET(page_header, reserved3, 120);
NKV_ASSERT_OFFSET(page_header, crc_cold, 124);

/**
 * An element that DELTA4 cannot hold: smaller than 2^-14 of its channel's largest, or not finite.
 * Scores and values count it as zero; READ and GATHER restore it.
 */
struct nkv_row_exception {
  uint16_t element; /**< token * dim + channel. */
  uint16_t bits; /**< The bf16 pattern. */
};
#define NKV_ROW_EXCEPTION_BYTES 4
NKV_ASSERT_BYTES(row_exception, 4);
NKV_ASSERT_OFFSET(row_exception, element, 0);
NKV_ASSERT_OFFSET(row_exception, bits, 2);

/**
 * Follows the header of a compressed page. Behind it come the K block, the V block unless v_form is
 * NONE, KEY_SCALES if flagged, and K_GAINS with CODES, each starting at a multiple of BURST_BYTES
 * from the page's start; bytes between them are zero. A block is one tensor in the header's codec
 * (host_lib/src/codec/FORMATS.md). In the header, payload_bytes reaches to the end of the last
 * part, crc_v_exceptions covers them all, the other arrays' checksums are zero, and what else it
 * says is what the source page said. The page's size is rounded up to PAGE_GRAIN_BYTES, with zeros.
 */
struct nkv_cold_payload {
  uint32_t k_bytes; /**< Size of the K block. */
  uint32_t v_bytes; /**< Size of the V block; 0 with v_form NONE. */
  uint64_t reserved; /**< Zero. */
};
#define NKV_COLD_PAYLOAD_BYTES 16
NKV_ASSERT_BYTES(cold_payload, 16);
NKV_ASSERT_OFFSET(cold_payload, k_bytes, 0);
NKV_ASSERT_OFFSET(cold_payload, v_bytes, 4);
NKV_ASSERT_OFFSET(cold_payload, reserved, 8);

/**
 * Build `tokens` / PAGE_TOKENS pages. The pages' places overlap neither each other nor the bytes
 * from the first row to the last (BAD_FIELD, detail = offset of `page_list`). All or nothing: on an
 * error no entry has changed and no new page can be found; what its place held may be lost. With
 * CODES, K_GAINS of all pages stand behind the page_list's last entry. The completion means that
 * the pages are durable where the memory is: neither the end of a process nor, on memory that
 * outlives it, the loss of power undoes them. At no moment can a page be found whose bytes are not
 * durable.
 */
struct nkv_append_command {
  uint8_t opcode; /**< APPEND. */
  uint8_t flags; /**< Options. [flags of append_flag] */
  uint16_t tag; /**< Returned in the completion. */
  uint16_t head_dim; /**< Channels of a key row. [16 to MAX_HEAD_DIM, a multiple of 16] */
  /**
   * Channels of a value row; with v_form NONE, the leading key channels that serve as values, or 0.
   * [at most MAX_HEAD_DIM, a multiple of 16]
   */
  uint16_t value_dim;
  uint32_t tokens; /**< Rows to take. [PAGE_TOKENS to MAX_TOKENS, a multiple of PAGE_TOKENS] */
  /** Position of the first row in the sequence. [a multiple of PAGE_TOKENS] */
  uint32_t first_token;
  uint64_t keys; /**< First key row. */
  uint64_t values; /**< First value row; 0 with v_form NONE. */
  /** First page_entry; `page` and `generation` filled in by the host. [a multiple of 8] */
  uint64_t page_list;
  uint64_t sequence_id; /**< Written into the headers. */
  uint16_t layer; /**< Written into the headers. */
  uint16_t kv_head; /**< Written into the headers. */
  uint32_t key_stride; /**< Bytes from one key row to the next. [at least 1] */
  uint32_t value_stride; /**< Bytes from one value row to the next. */
  uint8_t dtype; /**< Element type of the rows; not FP32. [a value of dtype] */
  uint8_t k_form; /**< RAW or DELTA4 (bf16 only). [a value of row_form] */
  uint8_t v_form; /**< RAW, DELTA4 (bf16 only) or NONE. [a value of row_form] */
  /** CODES: pages in a row that share a sign set; 0 means SIGN_RUN. Not looked at without CODES. */
  uint8_t sign_run;
};
#define NKV_APPEND_COMMAND_BYTES 64
NKV_ASSERT_BYTES(append_command, 64);
NKV_ASSERT_OFFSET(append_command, opcode, 0);
NKV_ASSERT_OFFSET(append_command, flags, 1);
NKV_ASSERT_OFFSET(append_command, tag, 2);
NKV_ASSERT_OFFSET(append_command, head_dim, 4);
NKV_ASSERT_OFFSET(append_command, value_dim, 6);
NKV_ASSERT_OFFSET(append_command, tokens, 8);
NKV_ASSERT_OFFSET(append_command, first_token, 12);
NKV_ASSERT_OFFSET(append_command, keys, 16);
NKV_ASSERT_OFFSET(append_command, values, 24);
NKV_ASSERT_OFFSET(append_command, page_list, 32);
NKV_ASSERT_OFFSET(append_command, sequence_id, 40);
NKV_ASSERT_OFFSET(append_command, layer, 48);
NKV_ASSERT_OFFSET(append_command, kv_head, 50);
NKV_ASSERT_OFFSET(append_command, key_stride, 52);
NKV_ASSERT_OFFSET(append_command, value_stride, 56);
NKV_ASSERT_OFFSET(append_command, dtype, 60);
NKV_ASSERT_OFFSET(append_command, k_form, 61);
NKV_ASSERT_OFFSET(append_command, v_form, 62);
NKV_ASSERT_OFFSET(append_command, sign_run, 63);

/**
 * O = softmax(scale * q K) V and LSE per row over the visible tokens of a page list. Writes O
 * [group][value_dim], LSE fp32 [group], bound fp32 [group]. All pages of a list store values, or
 * none does. A token t is visible if t < tokens and (window = 0 or t >= tokens - window or t <
 * sinks).
 */
struct nkv_attend_command {
  uint8_t opcode; /**< ATTEND. */
  uint8_t flags; /**< Options. [flags of attend_flag] */
  uint16_t tag; /**< Returned in the completion. */
  uint16_t head_dim; /**< Channels of a query row. [16 to MAX_HEAD_DIM, a multiple of 16] */
  uint16_t value_dim; /**< Channels of an output row. [16 to MAX_HEAD_DIM, a multiple of 16] */
  /**
   * Causal limit: tokens of the list that may be seen; 0 gives O = 0, LSE = -inf. [at most
   * MAX_TOKENS]
   */
  uint32_t tokens;
  uint32_t window; /**< Sliding window in tokens; 0 for none. */
  uint64_t query; /**< Query rows [group][head_dim], contiguous. [a multiple of 4] */
  uint64_t page_list; /**< First page_entry of ceil(tokens / PAGE_TOKENS). [a multiple of 8] */
  /**
   * Where O, LSE and bound go, one after the other, each starting at a multiple of 64 bytes. [a
   * multiple of BURST_BYTES]
   */
  uint64_t result;
  nkv_f32 scale; /**< Multiplies q k; finite and not zero. */
  nkv_f32 soft_cap; /**< c > 0: logits become c * tanh(logit / c); 0 for none. */
  uint8_t sinks; /**< First tokens that a window does not hide. */
  uint8_t byte_cap; /**< BOUNDED: most bytes to read, in 1/256 of a dense read; 0 for no cap. */
  uint16_t top_k; /**< TAIL: tokens per row to read exactly. [at most MAX_TOP_K] */
  uint8_t mode; /**< What to read. [a value of attend_mode] */
  uint8_t group; /**< Query rows. [1 to MAX_GROUP] */
  uint8_t query_dtype; /**< BF16, FP16 or FP32. [a value of dtype] */
  /** BOUNDED: standard deviations behind the bound, in sixteenths; 0 means USUAL_BOUND_Z. */
  uint8_t z;
  /** BOUNDED: wanted |O - exact| / |O| per row (Euclidean), above 0 and at most 1. */
  nkv_f32 error;
  uint32_t reserved; /**< Zero. */
};
#define NKV_ATTEND_COMMAND_BYTES 64
NKV_ASSERT_BYTES(attend_command, 64);
NKV_ASSERT_OFFSET(attend_command, opcode, 0);
NKV_ASSERT_OFFSET(attend_command, flags, 1);
NKV_ASSERT_OFFSET(attend_command, tag, 2);
NKV_ASSERT_OFFSET(attend_command, head_dim, 4);
NKV_ASSERT_OFFSET(attend_command, value_dim, 6);
NKV_ASSERT_OFFSET(attend_command, tokens, 8);
NKV_ASSERT_OFFSET(attend_command, window, 12);
NKV_ASSERT_OFFSET(attend_command, query, 16);
NKV_ASSERT_OFFSET(attend_command, page_list, 24);
NKV_ASSERT_OFFSET(attend_command, result, 32);
NKV_ASSERT_OFFSET(attend_command, scale, 40);
NKV_ASSERT_OFFSET(attend_command, soft_cap, 44);
NKV_ASSERT_OFFSET(attend_command, sinks, 48);
NKV_ASSERT_OFFSET(attend_command, byte_cap, 49);
NKV_ASSERT_OFFSET(attend_command, top_k, 50);
NKV_ASSERT_OFFSET(attend_command, mode, 52);
NKV_ASSERT_OFFSET(attend_command, group, 53);
NKV_ASSERT_OFFSET(attend_command, query_dtype, 54);
NKV_ASSERT_OFFSET(attend_command, z, 55);
NKV_ASSERT_OFFSET(attend_command, error, 56);
NKV_ASSERT_OFFSET(attend_command, reserved, 60);

/**
 * The best k tokens per row, by score descending, ties by index ascending. Writes ids u32
 * [group][top_k], scores fp32 [group][top_k] (scale * q k), counts u32 [group]; INDEXER writes one
 * row. Unused places hold id 2^32 - 1 and score -inf.
 */
struct nkv_topk_command {
  uint8_t opcode; /**< TOPK. */
  uint8_t flags; /**< Zero. [0] */
  uint16_t tag; /**< Returned in the completion. */
  uint16_t head_dim; /**< Channels of a query row. [16 to MAX_HEAD_DIM, a multiple of 16] */
  uint16_t reserved; /**< Zero. */
  uint32_t tokens; /**< As in ATTEND. [at most MAX_TOKENS] */
  uint32_t window; /**< As in ATTEND. */
  uint64_t query; /**< As in ATTEND. [a multiple of 4] */
  uint64_t page_list; /**< As in ATTEND. [a multiple of 8] */
  /**
   * Where ids, scores and counts go, one after the other, each starting at a multiple of 64 bytes.
   * [a multiple of BURST_BYTES]
   */
  uint64_t result;
  nkv_f32 scale; /**< As in ATTEND. */
  uint32_t reserved2; /**< Zero. */
  uint8_t sinks; /**< As in ATTEND. */
  uint8_t reserved3; /**< Zero. */
  uint16_t top_k; /**< Tokens wanted per row. [1 to MAX_TOP_K] */
  uint8_t mode; /**< How to find them. [a value of select] */
  uint8_t group; /**< Query rows. [1 to MAX_GROUP] */
  uint8_t query_dtype; /**< BF16, FP16, FP32; INDEXER also FP8_E4M3. [a value of dtype] */
  uint8_t z; /**< STATISTICAL: standard deviations, in sixteenths; 0 means USUAL_SEARCH_Z. */
  uint64_t weights; /**< INDEXER: fp32 weight per head. [a multiple of 4] */
};
#define NKV_TOPK_COMMAND_BYTES 64
NKV_ASSERT_BYTES(topk_command, 64);
NKV_ASSERT_OFFSET(topk_command, opcode, 0);
NKV_ASSERT_OFFSET(topk_command, flags, 1);
NKV_ASSERT_OFFSET(topk_command, tag, 2);
NKV_ASSERT_OFFSET(topk_command, head_dim, 4);
NKV_ASSERT_OFFSET(topk_command, reserved, 6);
NKV_ASSERT_OFFSET(topk_command, tokens, 8);
NKV_ASSERT_OFFSET(topk_command, window, 12);
NKV_ASSERT_OFFSET(topk_command, query, 16);
NKV_ASSERT_OFFSET(topk_command, page_list, 24);
NKV_ASSERT_OFFSET(topk_command, result, 32);
NKV_ASSERT_OFFSET(topk_command, scale, 40);
NKV_ASSERT_OFFSET(topk_command, reserved2, 44);
NKV_ASSERT_OFFSET(topk_command, sinks, 48);
NKV_ASSERT_OFFSET(topk_command, reserved3, 49);
NKV_ASSERT_OFFSET(topk_command, top_k, 50);
NKV_ASSERT_OFFSET(topk_command, mode, 52);
NKV_ASSERT_OFFSET(topk_command, group, 53);
NKV_ASSERT_OFFSET(topk_command, query_dtype, 54);
NKV_ASSERT_OFFSET(topk_command, z, 55);
NKV_ASSERT_OFFSET(topk_command, weights, 56);

/**
 * Rows `first` to `first + count` of a page list, in the source dtype, each tensor's rows
 * contiguous and starting at a multiple of 64 bytes. The bytes from the first row to the last
 * overlap neither a page that is read, nor the entries up to it, nor GATHER's ids (BAD_FIELD,
 * detail = offset of `result`).
 */
struct nkv_read_command {
  uint8_t opcode; /**< READ. */
  uint8_t flags; /**< Options. [flags of read_flag] */
  uint16_t tag; /**< Returned in the completion. */
  uint8_t tensor; /**< Which rows. [a value of tensor] */
  /**
   * CODES: planes of the codes to use, 1 to KEY_CODE_PLANES of keys and VALUE_CODE_PLANES of
   * values; a page without codes is BAD_PAGE. Without CODES, 0. [at most KEY_CODE_PLANES]
   */
  uint8_t planes;
  uint16_t reserved; /**< Zero. */
  uint32_t first; /**< First token. [at most MAX_TOKENS] */
  uint32_t count; /**< Tokens. [1 to MAX_TOKENS] */
  uint64_t reserved2; /**< Zero. */
  uint64_t page_list; /**< First page_entry of the list. [a multiple of 8] */
  uint64_t result; /**< Where the rows go. [a multiple of BURST_BYTES] */
  uint64_t reserved3[3]; /**< Zero. */
};
#define NKV_READ_COMMAND_BYTES 64
NKV_ASSERT_BYTES(read_command, 64);
NKV_ASSERT_OFFSET(read_command, opcode, 0);
NKV_ASSERT_OFFSET(read_command, flags, 1);
NKV_ASSERT_OFFSET(read_command, tag, 2);
NKV_ASSERT_OFFSET(read_command, tensor, 4);
NKV_ASSERT_OFFSET(read_command, planes, 5);
NKV_ASSERT_OFFSET(read_command, reserved, 6);
NKV_ASSERT_OFFSET(read_command, first, 8);
NKV_ASSERT_OFFSET(read_command, count, 12);
NKV_ASSERT_OFFSET(read_command, reserved2, 16);
NKV_ASSERT_OFFSET(read_command, page_list, 24);
NKV_ASSERT_OFFSET(read_command, result, 32);
NKV_ASSERT_OFFSET(read_command, reserved3, 40);

/** Rows of chosen tokens, in the order of `ids`, laid out as READ does. */
struct nkv_gather_command {
  uint8_t opcode; /**< GATHER. */
  uint8_t flags; /**< Zero. [0] */
  uint16_t tag; /**< Returned in the completion. */
  uint8_t tensor; /**< Which rows. [a value of tensor] */
  uint8_t reserved[3]; /**< Zero. */
  uint32_t tokens; /**< Tokens of the list; an id at or above it is BAD_FIELD. [1 to MAX_TOKENS] */
  uint32_t count; /**< Ids. [1 to MAX_TOKENS] */
  uint64_t ids; /**< u32 token ids, any order, repeats allowed. [a multiple of 4] */
  uint64_t page_list; /**< First page_entry of the list. [a multiple of 8] */
  uint64_t result; /**< Where the rows go. [a multiple of BURST_BYTES] */
  uint64_t reserved2[3]; /**< Zero. */
};
#define NKV_GATHER_COMMAND_BYTES 64
NKV_ASSERT_BYTES(gather_command, 64);
NKV_ASSERT_OFFSET(gather_command, opcode, 0);
NKV_ASSERT_OFFSET(gather_command, flags, 1);
NKV_ASSERT_OFFSET(gather_command, tag, 2);
NKV_ASSERT_OFFSET(gather_command, tensor, 4);
NKV_ASSERT_OFFSET(gather_command, reserved, 5);
NKV_ASSERT_OFFSET(gather_command, tokens, 8);
NKV_ASSERT_OFFSET(gather_command, count, 12);
NKV_ASSERT_OFFSET(gather_command, ids, 16);
NKV_ASSERT_OFFSET(gather_command, page_list, 24);
NKV_ASSERT_OFFSET(gather_command, result, 32);
NKV_ASSERT_OFFSET(gather_command, reserved2, 40);

/**
 * Whole pages, attendable or compressed: SCRUB and ERASE use `source`; TRANSCODE and COPY also
 * `destination`, whose entries name the new places and generations and receive the exponents. These
 * places overlap no source and each other not (BAD_FIELD); every checksum of a source is verified
 * first. TRANSCODE decodes a page to its rows, encodes them anew and writes the new page's size in
 * bytes (u32) to `result`; a page larger than `slot_bytes` is PAGE_OVERFLOW, a codec that does not
 * take the rows (lossy ones: bf16, finite, below 2^126 for INT8 and INT4) BAD_PAGE, a damaged
 * source CORRUPT, a codec that CODECS does not name, rows wider than LIMITS or, without feature
 * CODES, a page with codes UNSUPPORTED. Codec NONE builds the page as APPEND does, in the source's
 * row forms; rows that a lossy codec has changed so that DELTA4 cannot hold them become RAW, K and
 * V both. A command stops at the first page that fails: those before it are done, as the
 * completion's `count` says, and their sources stay; what the others' new places held may be lost.
 * The completion means that what was done is durable where the memory is, as with APPEND: new pages
 * of TRANSCODE and COPY, and the zeros of ERASE.
 */
struct nkv_pages_command {
  uint8_t opcode; /**< TRANSCODE, SCRUB, ERASE or COPY. [TRANSCODE or SCRUB or ERASE or COPY] */
  uint8_t flags; /**< Zero. [0] */
  uint16_t tag; /**< Returned in the completion. */
  uint8_t codec; /**< TRANSCODE: the new codec. [a value of codec] */
  uint8_t reserved[3]; /**< Zero. */
  uint32_t count; /**< Pages. [1 to MAX_TOKENS] */
  /** TRANSCODE: room at each destination, all of it inside the window; 0 is BAD_FIELD. */
  uint32_t slot_bytes;
  uint64_t source; /**< First page_entry. [a multiple of 8] */
  uint64_t destination; /**< First page_entry of the new places. [a multiple of 8] */
  uint64_t result; /**< TRANSCODE: sizes. [a multiple of 4] */
  uint64_t reserved2[3]; /**< Zero. */
};
#define NKV_PAGES_COMMAND_BYTES 64
NKV_ASSERT_BYTES(pages_command, 64);
NKV_ASSERT_OFFSET(pages_command, opcode, 0);
NKV_ASSERT_OFFSET(pages_command, flags, 1);
NKV_ASSERT_OFFSET(pages_command, tag, 2);
NKV_ASSERT_OFFSET(pages_command, codec, 4);
NKV_ASSERT_OFFSET(pages_command, reserved, 5);
NKV_ASSERT_OFFSET(pages_command, count, 8);
NKV_ASSERT_OFFSET(pages_command, slot_bytes, 12);
NKV_ASSERT_OFFSET(pages_command, source, 16);
NKV_ASSERT_OFFSET(pages_command, destination, 24);
NKV_ASSERT_OFFSET(pages_command, result, 32);
NKV_ASSERT_OFFSET(pages_command, reserved2, 40);

/**
 * Posted to the completion ring. The device writes the first 32 bits last; a new entry is one whose
 * `phase` equals the ring's current phase (1 in the first round, then alternating).
 */
struct nkv_completion {
  /**
   * The command's; 0 of one that memory never gave, which ends with INTERNAL, or the host never
   * wrote, which ends with NOT_WRITTEN: `sq_head` tells which.
   */
  uint16_t tag;
  uint8_t status; /**< How it ended. [a value of status] */
  uint8_t phase; /**< 0 or 1. */
  uint32_t count; /**< Pages or rows done; tokens returned by TOPK over all rows. */
  uint64_t detail; /**< What the status message refers to. */
  /** Bursts read in order: headers, what a scan of codes reads, dense rows. */
  uint32_t stream_bursts;
  uint32_t refine_bursts; /**< Bursts of further planes of the codes of K. */
  uint32_t exact_bursts; /**< Bursts of key rows read for chosen tokens. */
  /** Bursts of value rows, and of planes of the codes of V, read for chosen tokens. */
  uint32_t value_bursts;
  uint16_t sq_head; /**< Commands before this index have been fetched. */
  uint8_t flags; /**< What to know of the result. [flags of completion_flag] */
  uint8_t rounds; /**< BOUNDED: rounds that read. */
  nkv_f32 bound; /**< BOUNDED: largest error bound of the rows, relative to |O|. */
  uint64_t ticks; /**< Device time spent, in 1/TICK_HZ; 0 without feature TICKS. */
  uint64_t reserved[2]; /**< Zero. */
};
#define NKV_COMPLETION_BYTES 64
NKV_ASSERT_BYTES(completion, 64);
NKV_ASSERT_OFFSET(completion, tag, 0);
NKV_ASSERT_OFFSET(completion, status, 2);
NKV_ASSERT_OFFSET(completion, phase, 3);
NKV_ASSERT_OFFSET(completion, count, 4);
NKV_ASSERT_OFFSET(completion, detail, 8);
NKV_ASSERT_OFFSET(completion, stream_bursts, 16);
NKV_ASSERT_OFFSET(completion, refine_bursts, 20);
NKV_ASSERT_OFFSET(completion, exact_bursts, 24);
NKV_ASSERT_OFFSET(completion, value_bursts, 28);
NKV_ASSERT_OFFSET(completion, sq_head, 32);
NKV_ASSERT_OFFSET(completion, flags, 34);
NKV_ASSERT_OFFSET(completion, rounds, 35);
NKV_ASSERT_OFFSET(completion, bound, 36);
NKV_ASSERT_OFFSET(completion, ticks, 40);
NKV_ASSERT_OFFSET(completion, reserved, 48);

/**
 * Begins the page of a queue at DOORBELL_BASE. A host's write to all bytes of a field is a write of
 * the register besides; of other bytes it is a write to memory alone.
 */
struct nkv_doorbell_line {
  uint16_t sq_tail; /**< The queue's SQ_TAIL. */
  uint16_t reserved[3]; /**< Zero. */
  uint16_t cq_head; /**< Its CQ_HEAD. */
  uint16_t reserved2[3]; /**< Zero. */
};
#define NKV_DOORBELL_LINE_BYTES 16
NKV_ASSERT_BYTES(doorbell_line, 16);
NKV_ASSERT_OFFSET(doorbell_line, sq_tail, 0);
NKV_ASSERT_OFFSET(doorbell_line, reserved, 2);
NKV_ASSERT_OFFSET(doorbell_line, cq_head, 8);
NKV_ASSERT_OFFSET(doorbell_line, reserved2, 10);

/**
 * First bytes of a pool, and again at POOL_HEADER_COPY_AT. Written once, by whoever creates it.
 * Without layers it is a pool of objects only.
 */
struct nkv_pool_header {
  uint32_t magic; /**< POOL_MAGIC. */
  uint32_t version; /**< Version of all pool structures, POOL_VERSION. */
  uint64_t total_bytes; /**< Memory that the pool manages, this header included. */
  /** Offset of sequence_record [2][max_sequences]: two copies, the first written first. */
  uint64_t sequences_at;
  uint64_t slabs_at; /**< Offset of slab_record [slabs]. */
  uint64_t rings_at; /**< Offset of the queue's rings; contents do not survive. */
  uint64_t lists_at; /**< Offset of page lists; rebuilt from page headers. */
  uint64_t staging_at; /**< Offset of rows, queries and results on their way. */
  uint64_t data_at; /**< Offset of the first slab. */
  /** Offset of namespace_record [2][max_namespaces]: two copies, the first written first. */
  uint64_t namespaces_at;
  uint64_t objects_at; /**< Offset of object_record [max_objects]. */
  uint64_t seed; /**< Random; seeds fingerprints of keys, so that no client can make two collide. */
  uint32_t max_namespaces; /**< Records in the namespace table. */
  uint32_t max_objects; /**< Records in the object table; 0: a pool of sequences only. */
  uint32_t max_sequences; /**< Records in the sequence table. */
  uint32_t slab_bytes; /**< Size of a slab. */
  uint32_t slabs; /**< Slabs from data_at on. */
  uint16_t layers; /**< Shape of all sequences. */
  uint16_t kv_heads; /**< KV heads of a layer. */
  uint16_t head_dim; /**< Channels of a key row. */
  uint16_t value_dim; /**< Channels of a value row. */
  uint8_t dtype; /**< Element type of rows. [a value of dtype] */
  uint8_t k_form; /**< Form that keys are stored in where they fit it. [a value of row_form] */
  uint8_t v_form; /**< Form that values are stored in where they fit it. [a value of row_form] */
  uint8_t reserved[5]; /**< Zero. */
  uint32_t crc; /**< CRC32C of bytes 0 to 123. */
};
#define NKV_POOL_HEADER_BYTES 128
NKV_ASSERT_BYTES(pool_header, 128);
NKV_ASSERT_OFFSET(pool_header, magic, 0);
NKV_ASSERT_OFFSET(pool_header, version, 4);
NKV_ASSERT_OFFSET(pool_header, total_bytes, 8);
NKV_ASSERT_OFFSET(pool_header, sequences_at, 16);
NKV_ASSERT_OFFSET(pool_header, slabs_at, 24);
NKV_ASSERT_OFFSET(pool_header, rings_at, 32);
NKV_ASSERT_OFFSET(pool_header, lists_at, 40);
NKV_ASSERT_OFFSET(pool_header, staging_at, 48);
NKV_ASSERT_OFFSET(pool_header, data_at, 56);
NKV_ASSERT_OFFSET(pool_header, namespaces_at, 64);
NKV_ASSERT_OFFSET(pool_header, objects_at, 72);
NKV_ASSERT_OFFSET(pool_header, seed, 80);
NKV_ASSERT_OFFSET(pool_header, max_namespaces, 88);
NKV_ASSERT_OFFSET(pool_header, max_objects, 92);
NKV_ASSERT_OFFSET(pool_header, max_sequences, 96);
NKV_ASSERT_OFFSET(pool_header, slab_bytes, 100);
NKV_ASSERT_OFFSET(pool_header, slabs, 104);
NKV_ASSERT_OFFSET(pool_header, layers, 108);
NKV_ASSERT_OFFSET(pool_header, kv_heads, 110);
NKV_ASSERT_OFFSET(pool_header, head_dim, 112);
NKV_ASSERT_OFFSET(pool_header, value_dim, 114);
NKV_ASSERT_OFFSET(pool_header, dtype, 116);
NKV_ASSERT_OFFSET(pool_header, k_form, 117);
NKV_ASSERT_OFFSET(pool_header, v_form, 118);
NKV_ASSERT_OFFSET(pool_header, reserved, 119);
NKV_ASSERT_OFFSET(pool_header, crc, 124);

/**
 * One sequence, kept twice: a copy whose checksum is wrong does not count, and of two whole copies
 * the first is right. No whole copy means FREE. A dropped sequence stays while forks share its
 * pages.
 */
struct nkv_sequence_record {
  uint32_t state; /**< Written last, in one 8-byte store with `crc`. [a value of sequence_state] */
  uint32_t crc; /**< CRC32C of `state` and of all that follows. */
  uint64_t sequence_id; /**< The engine's number. */
  uint64_t parent_id; /**< Sequence that this one was forked from, if fork_tokens > 0. */
  uint32_t fork_tokens; /**< Tokens shared with the parent. */
  uint32_t reserved; /**< Zero. */
};
#define NKV_SEQUENCE_RECORD_BYTES 32
NKV_ASSERT_BYTES(sequence_record, 32);
NKV_ASSERT_OFFSET(sequence_record, state, 0);
NKV_ASSERT_OFFSET(sequence_record, crc, 4);
NKV_ASSERT_OFFSET(sequence_record, sequence_id, 8);
NKV_ASSERT_OFFSET(sequence_record, parent_id, 16);
NKV_ASSERT_OFFSET(sequence_record, fork_tokens, 24);
NKV_ASSERT_OFFSET(sequence_record, reserved, 28);

/**
 * What a slab is cut into, twice: a copy whose checksum is wrong does not count. The first copy is
 * written first.
 */
struct nkv_slab_record {
  /**
   * Size of its page slots: a page can only start at a multiple of it; 0: free; SLAB_OF_OBJECTS.
   */
  uint32_t slot_bytes;
  uint32_t crc; /**< CRC32C of `slot_bytes`. */
  uint32_t copy_slot_bytes; /**< As `slot_bytes`. */
  uint32_t copy_crc; /**< CRC32C of `copy_slot_bytes`. */
};
#define NKV_SLAB_RECORD_BYTES 16
NKV_ASSERT_BYTES(slab_record, 16);
NKV_ASSERT_OFFSET(slab_record, slot_bytes, 0);
NKV_ASSERT_OFFSET(slab_record, crc, 4);
NKV_ASSERT_OFFSET(slab_record, copy_slot_bytes, 8);
NKV_ASSERT_OFFSET(slab_record, copy_crc, 12);

/**
 * Who shares keys: a tenant, and a model, dtype, layout, rank, group and salt. Its number is the
 * record's place in the table, and `round` times the table's length, so that it is not given again
 * until the record was used 65,536 times.
 */
struct nkv_namespace_record {
  uint32_t state; /**< Written last, in one 8-byte store with `crc`. [a value of object_state] */
  /**
   * CRC32C of all that follows, exclusive-ored with `state` and with LIVE. A free record has it
   * too, once it was used.
   */
  uint32_t crc;
  uint16_t tenant; /**< Whose it is. */
  uint16_t round; /**< How often the record was used before. */
  /**
   * LIVE: length of the whole name for people. CONTINUED: where in it this piece begins. [at most
   * NAMESPACE_TEXT_BYTES]
   */
  uint32_t text_bytes;
  uint8_t digest[32]; /**< SHA-256 of everything that makes the namespace, the salt included. */
  /**
   * A piece of what is for people: model, dtype, layout, rank and group, in UTF-8. Never the salt.
   */
  uint8_t text[NKV_NAMESPACE_RECORD_TEXT_BYTES];
};
#define NKV_NAMESPACE_RECORD_BYTES 256
NKV_ASSERT_BYTES(namespace_record, 256);
NKV_ASSERT_OFFSET(namespace_record, state, 0);
NKV_ASSERT_OFFSET(namespace_record, crc, 4);
NKV_ASSERT_OFFSET(namespace_record, tenant, 8);
NKV_ASSERT_OFFSET(namespace_record, round, 10);
NKV_ASSERT_OFFSET(namespace_record, text_bytes, 12);
NKV_ASSERT_OFFSET(namespace_record, digest, 16);
NKV_ASSERT_OFFSET(namespace_record, text, 48);

/** A run of grains. */
struct nkv_object_extent {
  uint32_t first_grain; /**< Counted from the start of the pool. */
  uint32_t grains; /**< At least 1. */
};
#define NKV_OBJECT_EXTENT_BYTES 8
NKV_ASSERT_BYTES(object_extent, 8);
NKV_ASSERT_OFFSET(object_extent, first_grain, 0);
NKV_ASSERT_OFFSET(object_extent, grains, 4);

/**
 * What one part of a sealed object takes to be opened, beside the tenant's key: XAES-256-GCM. It
 * authenticates the namespace's digest, the record's `key`, `key_bytes`, `parts` and `bytes`, and
 * the part's number (32 bits).
 */
struct nkv_object_seal {
  uint8_t nonce[NKV_SEAL_NONCE_BYTES]; /**< Random. */
  uint8_t tag[NKV_SEAL_TAG_BYTES]; /**< Of the ciphertext and what is authenticated. */
  uint32_t crc; /**< CRC32C of the ciphertext, which can be verified without the key. */
  uint32_t reserved; /**< Zero. */
};
#define NKV_OBJECT_SEAL_BYTES 48
NKV_ASSERT_BYTES(object_seal, 48);
NKV_ASSERT_OFFSET(object_seal, nonce, 0);
NKV_ASSERT_OFFSET(object_seal, tag, 24);
NKV_ASSERT_OFFSET(object_seal, crc, 40);
NKV_ASSERT_OFFSET(object_seal, reserved, 44);

/**
 * One object. The payload is durable before the record, and the record before its state; a free
 * record is any whose state is FREE.
 */
struct nkv_object_record {
  uint32_t state; /**< Written last, in one 8-byte store with `crc`. [a value of object_state] */
  uint32_t crc; /**< CRC32C of all that follows. */
  /** Counts what the pool has ever published; of two records with one key the later is right. */
  uint64_t generation;
  uint32_t namespace_number; /**< Number of its namespace. */
  uint32_t bytes; /**< Length of the payload. [at most MAX_OBJECT_BYTES] */
  uint8_t key[NKV_OBJECT_KEY_BYTES]; /**< The key, or its SHA-256. */
  uint32_t payload_crc; /**< CRC32C of the payload, or of what stands behind it. */
  uint8_t key_bytes; /**< Length of the key; 0: `key` is a SHA-256. [at most OBJECT_KEY_BYTES] */
  uint8_t flags; /**< How it is stored. [flags of object_flag] */
  /**
   * How many. More than RECORD_EXTENTS are listed in the one grain that the record then names; the
   * list ends with its CRC32C. [at most MAX_OBJECT_EXTENTS]
   */
  uint16_t extents;
  uint64_t parent; /**< Fingerprint of the block before it in its prefix; 0: none. */
  uint32_t created_s; /**< When it was published, in seconds since 1970. */
  uint32_t expires_s; /**< When it may go, in seconds since 1970; 0: never by age. */
  /**
   * Equal parts (layers) that are written, read and checked alone; 0 or 1: none. The last may be
   * shorter. [at most MAX_OBJECT_PARTS]
   */
  uint16_t parts;
  uint16_t tenant; /**< The namespace's. */
  uint32_t grains; /**< That its extents hold together, the list's own not counted. */
  uint32_t extent_first[NKV_RECORD_EXTENTS]; /**< First grain of each extent. */
  uint32_t extent_grains[NKV_RECORD_EXTENTS]; /**< Grains of each extent. */
};
#define NKV_OBJECT_RECORD_BYTES 128
NKV_ASSERT_BYTES(object_record, 128);
NKV_ASSERT_OFFSET(object_record, state, 0);
NKV_ASSERT_OFFSET(object_record, crc, 4);
NKV_ASSERT_OFFSET(object_record, generation, 8);
NKV_ASSERT_OFFSET(object_record, namespace_number, 16);
NKV_ASSERT_OFFSET(object_record, bytes, 20);
NKV_ASSERT_OFFSET(object_record, key, 24);
NKV_ASSERT_OFFSET(object_record, payload_crc, 56);
NKV_ASSERT_OFFSET(object_record, key_bytes, 60);
NKV_ASSERT_OFFSET(object_record, flags, 61);
NKV_ASSERT_OFFSET(object_record, extents, 62);
NKV_ASSERT_OFFSET(object_record, parent, 64);
NKV_ASSERT_OFFSET(object_record, created_s, 72);
NKV_ASSERT_OFFSET(object_record, expires_s, 76);
NKV_ASSERT_OFFSET(object_record, parts, 80);
NKV_ASSERT_OFFSET(object_record, tenant, 82);
NKV_ASSERT_OFFSET(object_record, grains, 84);
NKV_ASSERT_OFFSET(object_record, extent_first, 88);
NKV_ASSERT_OFFSET(object_record, extent_grains, 108);

/** First bytes of a shared region. Written once, by whoever creates it. */
struct nkv_share_header {
  uint32_t magic; /**< SHARE_MAGIC. */
  uint32_t version; /**< Version of all shared structures, SHARE_VERSION. */
  uint64_t total_bytes; /**< All of the region, this header included. */
  uint64_t extents_at; /**< Offset of the first extent. */
  uint32_t extents; /**< Extents of the region. */
  uint32_t extent_bytes; /**< A power of two, BURST_BYTES at least. */
  uint32_t log_entries; /**< Entries of one log. */
  uint16_t hosts; /**< Hosts that the region has room for. */
  uint16_t leases; /**< Entries of a host's lease table. */
  uint16_t messages; /**< Slots of a mailbox. */
  uint16_t reserved; /**< Zero. */
  uint32_t reserved2[4]; /**< Zero. */
  uint32_t crc; /**< CRC32C of bytes 0 to 59. */
};
#define NKV_SHARE_HEADER_BYTES 64
NKV_ASSERT_BYTES(share_header, 64);
NKV_ASSERT_OFFSET(share_header, magic, 0);
NKV_ASSERT_OFFSET(share_header, version, 4);
NKV_ASSERT_OFFSET(share_header, total_bytes, 8);
NKV_ASSERT_OFFSET(share_header, extents_at, 16);
NKV_ASSERT_OFFSET(share_header, extents, 24);
NKV_ASSERT_OFFSET(share_header, extent_bytes, 28);
NKV_ASSERT_OFFSET(share_header, log_entries, 32);
NKV_ASSERT_OFFSET(share_header, hosts, 36);
NKV_ASSERT_OFFSET(share_header, leases, 38);
NKV_ASSERT_OFFSET(share_header, messages, 40);
NKV_ASSERT_OFFSET(share_header, reserved, 42);
NKV_ASSERT_OFFSET(share_header, reserved2, 44);
NKV_ASSERT_OFFSET(share_header, crc, 60);

/**
 * What a host says of itself and of its log. Two copies, written in turn, so that one is always
 * whole; the larger heartbeat counts.
 */
struct nkv_share_host_line {
  uint32_t epoch; /**< The host's incarnation. */
  uint32_t free_extents; /**< Extents that it could use or lend at once. */
  uint64_t heartbeat; /**< Grows with each writing. */
  uint64_t head; /**< Number of the last published log entry. */
  uint64_t tail; /**< Entries up to this number are no longer needed and may be overwritten. */
  uint64_t view_revision; /**< Revision of the membership that the host acts on. */
  uint32_t reserved[5]; /**< Zero. */
  uint32_t crc; /**< CRC32C of bytes 0 to 59. */
};
#define NKV_SHARE_HOST_LINE_BYTES 64
NKV_ASSERT_BYTES(share_host_line, 64);
NKV_ASSERT_OFFSET(share_host_line, epoch, 0);
NKV_ASSERT_OFFSET(share_host_line, free_extents, 4);
NKV_ASSERT_OFFSET(share_host_line, heartbeat, 8);
NKV_ASSERT_OFFSET(share_host_line, head, 16);
NKV_ASSERT_OFFSET(share_host_line, tail, 24);
NKV_ASSERT_OFFSET(share_host_line, view_revision, 32);
NKV_ASSERT_OFFSET(share_host_line, reserved, 40);
NKV_ASSERT_OFFSET(share_host_line, crc, 60);

/**
 * One entry of a host's log. The first publisher's host, epoch and number name an object for good,
 * whoever owns it later.
 */
struct nkv_share_entry {
  uint64_t number; /**< From 1; entry s stands in slot s modulo log_entries. */
  uint32_t epoch; /**< Of the log's host. */
  uint8_t kind; /**< What it says. [a value of share_entry_kind] */
  uint8_t reserved; /**< Zero. */
  uint16_t host; /**< First publisher; TRANSFER: the new owner. */
  uint64_t key_low; /**< Key. */
  uint64_t key_high; /**< Key. */
  uint64_t origin_number; /**< Of the first publication. */
  uint32_t origin_epoch; /**< Of the first publication. */
  uint32_t first_extent; /**< Place. */
  uint32_t length; /**< Bytes of the object; TRANSFER: extents. */
  uint32_t payload_crc; /**< CRC32C of the object's bytes. */
  uint32_t version; /**< 0: immutable, else from 1 on; TRANSFER: grows with each change of owner. */
  uint32_t crc; /**< CRC32C of bytes 0 to 59. */
};
#define NKV_SHARE_ENTRY_BYTES 64
NKV_ASSERT_BYTES(share_entry, 64);
NKV_ASSERT_OFFSET(share_entry, number, 0);
NKV_ASSERT_OFFSET(share_entry, epoch, 8);
NKV_ASSERT_OFFSET(share_entry, kind, 12);
NKV_ASSERT_OFFSET(share_entry, reserved, 13);
NKV_ASSERT_OFFSET(share_entry, host, 14);
NKV_ASSERT_OFFSET(share_entry, key_low, 16);
NKV_ASSERT_OFFSET(share_entry, key_high, 24);
NKV_ASSERT_OFFSET(share_entry, origin_number, 32);
NKV_ASSERT_OFFSET(share_entry, origin_epoch, 40);
NKV_ASSERT_OFFSET(share_entry, first_extent, 44);
NKV_ASSERT_OFFSET(share_entry, length, 48);
NKV_ASSERT_OFFSET(share_entry, payload_crc, 52);
NKV_ASSERT_OFFSET(share_entry, version, 56);
NKV_ASSERT_OFFSET(share_entry, crc, 60);

/**
 * What one host has taken of another's log and mailbox. Reads of anything that the log ended up to
 * here have ended too, but for those in the lease table.
 */
struct nkv_share_ack {
  uint32_t reader_epoch; /**< Of the host that writes this. */
  uint32_t owner_epoch; /**< Of the host whose log it is. */
  uint64_t log_number; /**< Entries taken. */
  uint64_t messages_taken; /**< Messages taken. */
  uint32_t reserved[9]; /**< Zero. */
  uint32_t crc; /**< CRC32C of bytes 0 to 59. */
};
#define NKV_SHARE_ACK_BYTES 64
NKV_ASSERT_BYTES(share_ack, 64);
NKV_ASSERT_OFFSET(share_ack, reader_epoch, 0);
NKV_ASSERT_OFFSET(share_ack, owner_epoch, 4);
NKV_ASSERT_OFFSET(share_ack, log_number, 8);
NKV_ASSERT_OFFSET(share_ack, messages_taken, 16);
NKV_ASSERT_OFFSET(share_ack, reserved, 24);
NKV_ASSERT_OFFSET(share_ack, crc, 60);

/** Extents that a host still reads although their object has ended. */
struct nkv_share_lease {
  uint32_t epoch; /**< Of the reading host. */
  uint32_t first_extent; /**< Place. */
  uint32_t extents; /**< Length; 0: none. */
  uint32_t reserved[12]; /**< Zero. */
  uint32_t crc; /**< CRC32C of bytes 0 to 59. */
};
#define NKV_SHARE_LEASE_BYTES 64
NKV_ASSERT_BYTES(share_lease, 64);
NKV_ASSERT_OFFSET(share_lease, epoch, 0);
NKV_ASSERT_OFFSET(share_lease, first_extent, 4);
NKV_ASSERT_OFFSET(share_lease, extents, 8);
NKV_ASSERT_OFFSET(share_lease, reserved, 12);
NKV_ASSERT_OFFSET(share_lease, crc, 60);

/** One message from one host to another. */
struct nkv_share_message {
  /** From 1 between two incarnations; message s stands in slot s modulo messages. */
  uint64_t number;
  uint32_t from_epoch; /**< Incarnation of the sender. */
  uint32_t to_epoch; /**< Incarnation that it is meant for. */
  uint64_t origin_number; /**< Of the object, as in its log entry. */
  uint32_t origin_epoch; /**< Of the object. */
  uint16_t origin_host; /**< Of the object. */
  uint8_t kind; /**< What it says. [a value of share_message_kind] */
  uint8_t reserved; /**< Zero. */
  uint32_t version; /**< Of the object. */
  uint32_t first_extent; /**< Place of that version. */
  uint32_t length; /**< Its bytes; ASK: extents. */
  uint32_t payload_crc; /**< CRC32C of its bytes. */
  uint32_t reserved2[3]; /**< Zero. */
  uint32_t crc; /**< CRC32C of bytes 0 to 59. */
};
#define NKV_SHARE_MESSAGE_BYTES 64
NKV_ASSERT_BYTES(share_message, 64);
NKV_ASSERT_OFFSET(share_message, number, 0);
NKV_ASSERT_OFFSET(share_message, from_epoch, 8);
NKV_ASSERT_OFFSET(share_message, to_epoch, 12);
NKV_ASSERT_OFFSET(share_message, origin_number, 16);
NKV_ASSERT_OFFSET(share_message, origin_epoch, 24);
NKV_ASSERT_OFFSET(share_message, origin_host, 28);
NKV_ASSERT_OFFSET(share_message, kind, 30);
NKV_ASSERT_OFFSET(share_message, reserved, 31);
NKV_ASSERT_OFFSET(share_message, version, 32);
NKV_ASSERT_OFFSET(share_message, first_extent, 36);
NKV_ASSERT_OFFSET(share_message, length, 40);
NKV_ASSERT_OFFSET(share_message, payload_crc, 44);
NKV_ASSERT_OFFSET(share_message, reserved2, 48);
NKV_ASSERT_OFFSET(share_message, crc, 60);

/** Opens a connection. */
struct nkv_daemon_hello {
  uint32_t magic; /**< DAEMON_MAGIC. */
  uint32_t message; /**< HELLO. [a value of daemon_message] */
  uint32_t version; /**< DAEMON_VERSION. */
  uint32_t reserved; /**< Zero. */
  /** Wanted size of the window's data area; the daemon gives at most what it is configured to. */
  uint64_t data_bytes;
  uint64_t reserved2[5]; /**< Zero. */
};
#define NKV_DAEMON_HELLO_BYTES 64
NKV_ASSERT_BYTES(daemon_hello, 64);
NKV_ASSERT_OFFSET(daemon_hello, magic, 0);
NKV_ASSERT_OFFSET(daemon_hello, message, 4);
NKV_ASSERT_OFFSET(daemon_hello, version, 8);
NKV_ASSERT_OFFSET(daemon_hello, reserved, 12);
NKV_ASSERT_OFFSET(daemon_hello, data_bytes, 16);
NKV_ASSERT_OFFSET(daemon_hello, reserved2, 24);

/**
 * Answers a hello. With status OK it carries three descriptors: the window, a memfd that cannot
 * change its size; the end of a pipe that the client writes a byte to when the daemon sleeps; and
 * the end of one that it reads when it sleeps itself.
 */
struct nkv_daemon_welcome {
  uint32_t magic; /**< DAEMON_MAGIC. */
  uint32_t message; /**< WELCOME. [a value of daemon_message] */
  uint32_t version; /**< DAEMON_VERSION. */
  /**
   * OK; BAD_ABI, DENIED, QUEUE_FULL or OUT_OF_MEMORY, and the connection ends. [a value of status]
   */
  uint8_t status;
  uint8_t reserved[3]; /**< Zero. */
  uint64_t window_bytes; /**< Size of the window. It begins with a daemon_ring_state. */
  uint64_t submissions_at; /**< Offset of daemon_submission [DAEMON_RING_ENTRIES]. */
  uint64_t completions_at; /**< Offset of daemon_completion [DAEMON_RING_ENTRIES]. */
  uint64_t requests_at; /**< Offset of the request area. */
  uint64_t request_area_bytes; /**< Size of the request area. */
  uint64_t data_at; /**< Offset of the data area, region 0. */
  uint64_t data_bytes; /**< Size of the data area. */
  uint64_t reserved2[7]; /**< Zero. */
  /** For people, in UTF-8: why not, and what to do. Padded with zeros. */
  uint8_t reason[NKV_DAEMON_REASON_BYTES];
};
#define NKV_DAEMON_WELCOME_BYTES 512
NKV_ASSERT_BYTES(daemon_welcome, 512);
NKV_ASSERT_OFFSET(daemon_welcome, magic, 0);
NKV_ASSERT_OFFSET(daemon_welcome, message, 4);
NKV_ASSERT_OFFSET(daemon_welcome, version, 8);
NKV_ASSERT_OFFSET(daemon_welcome, status, 12);
NKV_ASSERT_OFFSET(daemon_welcome, reserved, 13);
NKV_ASSERT_OFFSET(daemon_welcome, window_bytes, 16);
NKV_ASSERT_OFFSET(daemon_welcome, submissions_at, 24);
NKV_ASSERT_OFFSET(daemon_welcome, completions_at, 32);
NKV_ASSERT_OFFSET(daemon_welcome, requests_at, 40);
NKV_ASSERT_OFFSET(daemon_welcome, request_area_bytes, 48);
NKV_ASSERT_OFFSET(daemon_welcome, data_at, 56);
NKV_ASSERT_OFFSET(daemon_welcome, data_bytes, 64);
NKV_ASSERT_OFFSET(daemon_welcome, reserved2, 72);
NKV_ASSERT_OFFSET(daemon_welcome, reason, 128);

/** REGISTER (with one descriptor), UNREGISTER, and the daemon's REPLY to them. */
struct nkv_daemon_region {
  uint32_t magic; /**< DAEMON_MAGIC. */
  uint32_t message; /**< REGISTER, UNREGISTER or REPLY. [a value of daemon_message] */
  uint32_t region; /**< UNREGISTER: which; REPLY: the new region's number. */
  uint8_t status; /**< REPLY: how it ended. [a value of status] */
  uint8_t reserved[3]; /**< Zero. */
  /** REGISTER: where in the memfd the region begins, a multiple of the page size. */
  uint64_t offset;
  uint64_t bytes; /**< REGISTER: its size. */
  uint64_t reserved2[4]; /**< Zero. */
};
#define NKV_DAEMON_REGION_BYTES 64
NKV_ASSERT_BYTES(daemon_region, 64);
NKV_ASSERT_OFFSET(daemon_region, magic, 0);
NKV_ASSERT_OFFSET(daemon_region, message, 4);
NKV_ASSERT_OFFSET(daemon_region, region, 8);
NKV_ASSERT_OFFSET(daemon_region, status, 12);
NKV_ASSERT_OFFSET(daemon_region, reserved, 13);
NKV_ASSERT_OFFSET(daemon_region, offset, 16);
NKV_ASSERT_OFFSET(daemon_region, bytes, 24);
NKV_ASSERT_OFFSET(daemon_region, reserved2, 32);

/** First bytes of a window; one cache line for each way. */
struct nkv_daemon_ring_state {
  uint32_t submission_tail; /**< The client's: free-running count of submissions written. */
  uint32_t reserved[15]; /**< Zero. */
  uint32_t completion_head; /**< The client's: free-running count of completions consumed. */
  /** The client's: not 0 while a completion must make its descriptor readable. */
  uint32_t client_sleeps;
  uint32_t reserved2[14]; /**< Zero. */
  /** The daemon's: not 0 while a submission must be followed by a byte in its pipe. */
  uint32_t daemon_sleeps;
  uint32_t reserved3[15]; /**< Zero. */
};
#define NKV_DAEMON_RING_STATE_BYTES 192
NKV_ASSERT_BYTES(daemon_ring_state, 192);
NKV_ASSERT_OFFSET(daemon_ring_state, submission_tail, 0);
NKV_ASSERT_OFFSET(daemon_ring_state, reserved, 4);
NKV_ASSERT_OFFSET(daemon_ring_state, completion_head, 64);
NKV_ASSERT_OFFSET(daemon_ring_state, client_sleeps, 68);
NKV_ASSERT_OFFSET(daemon_ring_state, reserved2, 72);
NKV_ASSERT_OFFSET(daemon_ring_state, daemon_sleeps, 128);
NKV_ASSERT_OFFSET(daemon_ring_state, reserved3, 132);

/**
 * One request. Keys, segments and texts stand in the request area, and results go there; a request
 * and its result are the daemon's until the completion.
 */
struct nkv_daemon_submission {
  uint8_t operation; /**< What to do. [a value of daemon_operation] */
  uint8_t flags; /**< Options. [flags of daemon_flag] */
  uint16_t parts; /**< SET: parts of each object. [at most MAX_OBJECT_PARTS] */
  uint32_t number; /**< A namespace; or what the operation says. */
  uint64_t tag; /**< Returned in the completion. */
  uint32_t request_at; /**< Offset of the request in the request area, a multiple of 8. */
  /**
   * Size of the request. A job: daemon_item [items], then daemon_segment, then keys; with keys
   * alone: daemon_key [items], then keys.
   */
  uint32_t request_bytes;
  uint32_t result_at; /**< Offset of the result in the request area, a multiple of 8. */
  /**
   * Room for the result. A job: u32 [items], the sizes of what GET copied, then u8 [items],
   * statuses.
   */
  uint32_t result_bytes;
  uint32_t items; /**< Items or keys. */
  /** SET, SET_PARTS with CHAIN: offset in the request of the key before the first item's. */
  uint32_t parent_at;
  uint32_t parent_bytes; /**< Its length; 0: none. */
  uint32_t object_bytes; /**< SET_PARTS: size of a whole object. */
  /** SET: seconds after which objects may go, 0: never; or what the operation says. */
  uint64_t argument;
  uint64_t reserved2; /**< Zero. */
};
#define NKV_DAEMON_SUBMISSION_BYTES 64
NKV_ASSERT_BYTES(daemon_submission, 64);
NKV_ASSERT_OFFSET(daemon_submission, operation, 0);
NKV_ASSERT_OFFSET(daemon_submission, flags, 1);
NKV_ASSERT_OFFSET(daemon_submission, parts, 2);
NKV_ASSERT_OFFSET(daemon_submission, number, 4);
NKV_ASSERT_OFFSET(daemon_submission, tag, 8);
NKV_ASSERT_OFFSET(daemon_submission, request_at, 16);
NKV_ASSERT_OFFSET(daemon_submission, request_bytes, 20);
NKV_ASSERT_OFFSET(daemon_submission, result_at, 24);
NKV_ASSERT_OFFSET(daemon_submission, result_bytes, 28);
NKV_ASSERT_OFFSET(daemon_submission, items, 32);
NKV_ASSERT_OFFSET(daemon_submission, parent_at, 36);
NKV_ASSERT_OFFSET(daemon_submission, parent_bytes, 40);
NKV_ASSERT_OFFSET(daemon_submission, object_bytes, 44);
NKV_ASSERT_OFFSET(daemon_submission, argument, 48);
NKV_ASSERT_OFFSET(daemon_submission, reserved2, 56);

/**
 * The answer to one submission. The daemon writes the first 64 bits last; a new entry is one whose
 * `phase` equals the ring's current phase (1 in the first round, then alternating).
 */
struct nkv_daemon_completion {
  uint8_t phase; /**< 0 or 1. */
  uint8_t status; /**< How the request ended as a whole. [a value of status] */
  uint16_t reserved; /**< Zero. */
  uint32_t count; /**< Structures in the result. */
  uint64_t tag; /**< The submission's. */
  uint64_t value; /**< What the operation says. */
  uint64_t reserved2; /**< Zero. */
};
#define NKV_DAEMON_COMPLETION_BYTES 32
NKV_ASSERT_BYTES(daemon_completion, 32);
NKV_ASSERT_OFFSET(daemon_completion, phase, 0);
NKV_ASSERT_OFFSET(daemon_completion, status, 1);
NKV_ASSERT_OFFSET(daemon_completion, reserved, 2);
NKV_ASSERT_OFFSET(daemon_completion, count, 4);
NKV_ASSERT_OFFSET(daemon_completion, tag, 8);
NKV_ASSERT_OFFSET(daemon_completion, value, 16);
NKV_ASSERT_OFFSET(daemon_completion, reserved2, 24);

/** One object of a job. Offsets count from the start of the request. */
struct nkv_daemon_item {
  uint32_t key_at; /**< Offset of the key. */
  uint32_t key_bytes; /**< Its length. */
  uint32_t first_segment; /**< Index of its first segment in the request. */
  uint32_t segments; /**< How many. */
  uint16_t first_part; /**< GET, SET_PARTS: first part. */
  uint16_t part_count; /**< GET, SET_PARTS: parts; 0: all of the object. */
  uint8_t key_is_digest; /**< 1: the key is the SHA-256 that a record has in place of a long one. */
  uint8_t reserved[3]; /**< Zero. */
  uint64_t generation; /**< GET, ERASE: only if the object is this one; 0: whichever. */
};
#define NKV_DAEMON_ITEM_BYTES 32
NKV_ASSERT_BYTES(daemon_item, 32);
NKV_ASSERT_OFFSET(daemon_item, key_at, 0);
NKV_ASSERT_OFFSET(daemon_item, key_bytes, 4);
NKV_ASSERT_OFFSET(daemon_item, first_segment, 8);
NKV_ASSERT_OFFSET(daemon_item, segments, 12);
NKV_ASSERT_OFFSET(daemon_item, first_part, 16);
NKV_ASSERT_OFFSET(daemon_item, part_count, 18);
NKV_ASSERT_OFFSET(daemon_item, key_is_digest, 20);
NKV_ASSERT_OFFSET(daemon_item, reserved, 21);
NKV_ASSERT_OFFSET(daemon_item, generation, 24);

/** A run of bytes in a region. */
struct nkv_daemon_segment {
  uint64_t offset; /**< From the region's start. */
  uint32_t bytes; /**< Length. */
  uint32_t region; /**< 0: the window's data area; else as registered. */
};
#define NKV_DAEMON_SEGMENT_BYTES 16
NKV_ASSERT_BYTES(daemon_segment, 16);
NKV_ASSERT_OFFSET(daemon_segment, offset, 0);
NKV_ASSERT_OFFSET(daemon_segment, bytes, 8);
NKV_ASSERT_OFFSET(daemon_segment, region, 12);

/** A key in a request without segments. */
struct nkv_daemon_key {
  uint32_t key_at; /**< Offset of the key in the request. */
  uint32_t key_bytes; /**< Its length. */
};
#define NKV_DAEMON_KEY_BYTES 8
NKV_ASSERT_BYTES(daemon_key, 8);
NKV_ASSERT_OFFSET(daemon_key, key_at, 0);
NKV_ASSERT_OFFSET(daemon_key, key_bytes, 4);

/** Names a namespace. The texts follow, one after the other: model, dtype, layout, salt. */
struct nkv_daemon_namespace {
  uint16_t tenant; /**< Whose it is. */
  uint16_t reserved; /**< Zero. */
  uint32_t rank; /**< Part of the name. */
  uint32_t group; /**< Part of the name. */
  uint32_t model_bytes; /**< Length of the text. */
  uint32_t dtype_bytes; /**< Length of the text. */
  uint32_t layout_bytes; /**< Length of the text. */
  uint32_t salt_bytes; /**< Length of the text. */
  uint32_t reserved2; /**< Zero. */
};
#define NKV_DAEMON_NAMESPACE_BYTES 32
NKV_ASSERT_BYTES(daemon_namespace, 32);
NKV_ASSERT_OFFSET(daemon_namespace, tenant, 0);
NKV_ASSERT_OFFSET(daemon_namespace, reserved, 2);
NKV_ASSERT_OFFSET(daemon_namespace, rank, 4);
NKV_ASSERT_OFFSET(daemon_namespace, group, 8);
NKV_ASSERT_OFFSET(daemon_namespace, model_bytes, 12);
NKV_ASSERT_OFFSET(daemon_namespace, dtype_bytes, 16);
NKV_ASSERT_OFFSET(daemon_namespace, layout_bytes, 20);
NKV_ASSERT_OFFSET(daemon_namespace, salt_bytes, 24);
NKV_ASSERT_OFFSET(daemon_namespace, reserved2, 28);

/** A namespace, as its record tells it. */
struct nkv_daemon_namespace_info {
  uint32_t number; /**< Of the namespace. */
  uint16_t tenant; /**< Whose it is. */
  uint16_t reserved; /**< Zero. */
  uint32_t text_bytes; /**< Length of `text`. [at most NAMESPACE_TEXT_BYTES] */
  uint32_t users; /**< How often it is open now. */
  uint32_t objects; /**< Records of objects that name it. */
  uint32_t reserved2; /**< Zero. */
  uint8_t digest[32]; /**< Of all that makes the namespace, the salt included. */
  uint8_t text[NKV_NAMESPACE_TEXT_BYTES]; /**< For people. */
};
#define NKV_DAEMON_NAMESPACE_INFO_BYTES 1080
NKV_ASSERT_BYTES(daemon_namespace_info, 1080);
NKV_ASSERT_OFFSET(daemon_namespace_info, number, 0);
NKV_ASSERT_OFFSET(daemon_namespace_info, tenant, 4);
NKV_ASSERT_OFFSET(daemon_namespace_info, reserved, 6);
NKV_ASSERT_OFFSET(daemon_namespace_info, text_bytes, 8);
NKV_ASSERT_OFFSET(daemon_namespace_info, users, 12);
NKV_ASSERT_OFFSET(daemon_namespace_info, objects, 16);
NKV_ASSERT_OFFSET(daemon_namespace_info, reserved2, 20);
NKV_ASSERT_OFFSET(daemon_namespace_info, digest, 24);
NKV_ASSERT_OFFSET(daemon_namespace_info, text, 56);

/** An object, as its record tells it. */
struct nkv_daemon_object_info {
  uint32_t number; /**< Of the record. */
  uint32_t namespace_number; /**< Where its key counts. */
  uint32_t bytes; /**< Length of the payload. */
  uint16_t tenant; /**< Whose it is. */
  uint16_t parts; /**< Parts that can be read alone. */
  uint64_t generation; /**< Orders all that the pool has published. */
  uint32_t created_s; /**< In seconds since 1970. */
  uint32_t expires_s; /**< In seconds since 1970; 0: never by age. */
  uint16_t extents; /**< Pieces that it lies in. */
  uint8_t key_bytes; /**< Length of `key`. [at most OBJECT_KEY_BYTES] */
  uint8_t key_is_digest; /**< 1: `key` is a SHA-256. */
  uint8_t leased; /**< 1: somebody keeps it. */
  uint8_t reserved[3]; /**< Zero. */
  uint8_t key[NKV_OBJECT_KEY_BYTES]; /**< The key, or its SHA-256. */
  uint64_t reserved2; /**< Zero. */
};
#define NKV_DAEMON_OBJECT_INFO_BYTES 80
NKV_ASSERT_BYTES(daemon_object_info, 80);
NKV_ASSERT_OFFSET(daemon_object_info, number, 0);
NKV_ASSERT_OFFSET(daemon_object_info, namespace_number, 4);
NKV_ASSERT_OFFSET(daemon_object_info, bytes, 8);
NKV_ASSERT_OFFSET(daemon_object_info, tenant, 12);
NKV_ASSERT_OFFSET(daemon_object_info, parts, 14);
NKV_ASSERT_OFFSET(daemon_object_info, generation, 16);
NKV_ASSERT_OFFSET(daemon_object_info, created_s, 24);
NKV_ASSERT_OFFSET(daemon_object_info, expires_s, 28);
NKV_ASSERT_OFFSET(daemon_object_info, extents, 32);
NKV_ASSERT_OFFSET(daemon_object_info, key_bytes, 34);
NKV_ASSERT_OFFSET(daemon_object_info, key_is_digest, 35);
NKV_ASSERT_OFFSET(daemon_object_info, leased, 36);
NKV_ASSERT_OFFSET(daemon_object_info, reserved, 37);
NKV_ASSERT_OFFSET(daemon_object_info, key, 40);
NKV_ASSERT_OFFSET(daemon_object_info, reserved2, 72);

/** A change of what is there. */
struct nkv_daemon_event {
  uint8_t kind; /**< What has changed. [a value of store_event] */
  uint8_t key_bytes; /**< Length of `key`. [at most OBJECT_KEY_BYTES] */
  uint8_t key_is_digest; /**< 1: `key` is a SHA-256. */
  uint8_t tier; /**< Where, in a store of several tiers: 0 is the fastest. */
  uint32_t namespace_number; /**< Where the key counts. */
  uint32_t bytes; /**< Length of the payload. */
  uint32_t reserved2; /**< Zero. */
  uint8_t key[NKV_OBJECT_KEY_BYTES]; /**< The key, or its SHA-256. */
};
#define NKV_DAEMON_EVENT_BYTES 48
NKV_ASSERT_BYTES(daemon_event, 48);
NKV_ASSERT_OFFSET(daemon_event, kind, 0);
NKV_ASSERT_OFFSET(daemon_event, key_bytes, 1);
NKV_ASSERT_OFFSET(daemon_event, key_is_digest, 2);
NKV_ASSERT_OFFSET(daemon_event, tier, 3);
NKV_ASSERT_OFFSET(daemon_event, namespace_number, 4);
NKV_ASSERT_OFFSET(daemon_event, bytes, 8);
NKV_ASSERT_OFFSET(daemon_event, reserved2, 12);
NKV_ASSERT_OFFSET(daemon_event, key, 16);

/** What a step of VERIFY found. */
struct nkv_daemon_verify_progress {
  uint32_t next; /**< Record where the next step goes on; 0: all has been seen. */
  uint32_t reserved; /**< Zero. */
  uint64_t objects; /**< Objects read. */
  uint64_t bytes; /**< Their bytes. */
  uint64_t damaged; /**< Objects that are gone since. */
};
#define NKV_DAEMON_VERIFY_PROGRESS_BYTES 32
NKV_ASSERT_BYTES(daemon_verify_progress, 32);
NKV_ASSERT_OFFSET(daemon_verify_progress, next, 0);
NKV_ASSERT_OFFSET(daemon_verify_progress, reserved, 4);
NKV_ASSERT_OFFSET(daemon_verify_progress, objects, 8);
NKV_ASSERT_OFFSET(daemon_verify_progress, bytes, 16);
NKV_ASSERT_OFFSET(daemon_verify_progress, damaged, 24);

/** What a tenant holds, and what its clients have done since the daemon began. */
struct nkv_daemon_tenant_info {
  uint16_t number; /**< Of the tenant. */
  uint16_t reserved; /**< Zero. */
  uint32_t clients; /**< Connected now. */
  uint64_t used_bytes; /**< Held by objects, rounding included. */
  uint64_t quota_bytes; /**< Most that it may hold; all ones: no limit. */
  uint64_t sets; /**< Objects stored. */
  uint64_t set_bytes; /**< Their bytes. */
  uint64_t hits; /**< Objects given out. */
  uint64_t get_bytes; /**< Their bytes. */
  uint64_t misses; /**< Objects that were not there. */
  uint64_t denials; /**< Requests refused for want of permission. */
  uint8_t name[NKV_DAEMON_NAME_BYTES]; /**< In UTF-8, padded with zeros. */
  uint64_t reserved2[3]; /**< Zero. */
};
#define NKV_DAEMON_TENANT_INFO_BYTES 128
NKV_ASSERT_BYTES(daemon_tenant_info, 128);
NKV_ASSERT_OFFSET(daemon_tenant_info, number, 0);
NKV_ASSERT_OFFSET(daemon_tenant_info, reserved, 2);
NKV_ASSERT_OFFSET(daemon_tenant_info, clients, 4);
NKV_ASSERT_OFFSET(daemon_tenant_info, used_bytes, 8);
NKV_ASSERT_OFFSET(daemon_tenant_info, quota_bytes, 16);
NKV_ASSERT_OFFSET(daemon_tenant_info, sets, 24);
NKV_ASSERT_OFFSET(daemon_tenant_info, set_bytes, 32);
NKV_ASSERT_OFFSET(daemon_tenant_info, hits, 40);
NKV_ASSERT_OFFSET(daemon_tenant_info, get_bytes, 48);
NKV_ASSERT_OFFSET(daemon_tenant_info, misses, 56);
NKV_ASSERT_OFFSET(daemon_tenant_info, denials, 64);
NKV_ASSERT_OFFSET(daemon_tenant_info, name, 72);
NKV_ASSERT_OFFSET(daemon_tenant_info, reserved2, 104);

/** A client that is connected. */
struct nkv_daemon_client_info {
  uint32_t process_id; /**< Its process. */
  uint32_t user_id; /**< Who runs it. */
  uint16_t tenant; /**< The first that it may use. */
  uint16_t reserved; /**< Zero. */
  uint32_t leases; /**< That it holds. */
  uint32_t queued_jobs; /**< Not yet over. */
  uint32_t regions; /**< Of memory, its data area among them. */
  uint64_t requests; /**< Answered so far. */
  uint64_t copied_bytes; /**< In and out. */
  uint64_t connected_s; /**< Since 1970. */
  uint64_t reserved2[2]; /**< Zero. */
};
#define NKV_DAEMON_CLIENT_INFO_BYTES 64
NKV_ASSERT_BYTES(daemon_client_info, 64);
NKV_ASSERT_OFFSET(daemon_client_info, process_id, 0);
NKV_ASSERT_OFFSET(daemon_client_info, user_id, 4);
NKV_ASSERT_OFFSET(daemon_client_info, tenant, 8);
NKV_ASSERT_OFFSET(daemon_client_info, reserved, 10);
NKV_ASSERT_OFFSET(daemon_client_info, leases, 12);
NKV_ASSERT_OFFSET(daemon_client_info, queued_jobs, 16);
NKV_ASSERT_OFFSET(daemon_client_info, regions, 20);
NKV_ASSERT_OFFSET(daemon_client_info, requests, 24);
NKV_ASSERT_OFFSET(daemon_client_info, copied_bytes, 32);
NKV_ASSERT_OFFSET(daemon_client_info, connected_s, 40);
NKV_ASSERT_OFFSET(daemon_client_info, reserved2, 48);

/** Counters of the whole store, as the library's ObjectStoreStats explains them. */
struct nkv_daemon_store_stats {
  uint64_t total_bytes; /**< As ObjectStoreStats::total_bytes. */
  uint64_t used_bytes; /**< As ObjectStoreStats::used_bytes. */
  uint64_t object_bytes; /**< As ObjectStoreStats::object_bytes. */
  uint64_t objects; /**< As ObjectStoreStats::objects. */
  uint64_t namespaces; /**< As ObjectStoreStats::namespaces. */
  uint64_t leases; /**< As ObjectStoreStats::leases. */
  uint64_t sets; /**< As ObjectStoreStats::sets. */
  uint64_t set_bytes; /**< As ObjectStoreStats::set_bytes. */
  uint64_t hits; /**< As ObjectStoreStats::hits. */
  uint64_t get_bytes; /**< As ObjectStoreStats::get_bytes. */
  uint64_t misses; /**< As ObjectStoreStats::misses. */
  uint64_t evictions; /**< As ObjectStoreStats::evictions. */
  uint64_t expirations; /**< As ObjectStoreStats::expirations. */
  uint64_t corruptions; /**< As ObjectStoreStats::corruptions. */
  uint64_t recovered; /**< As ObjectStoreStats::recovered. */
  uint64_t torn; /**< As ObjectStoreStats::torn. */
  uint64_t moved; /**< As ObjectStoreStats::moved. */
  uint64_t quarantined; /**< As ObjectStoreStats::quarantined. */
  uint64_t demotions; /**< As ObjectStoreStats::demotions. */
  uint64_t promotions; /**< As ObjectStoreStats::promotions. */
  uint64_t slab_bytes; /**< As ObjectStoreStats::slab_bytes. */
  uint64_t scrubbed_bytes; /**< Verified in the background since the daemon began. */
  uint64_t clients; /**< Connected now. */
  uint64_t max_objects; /**< As ObjectStoreStats::max_objects. */
  uint64_t max_namespaces; /**< As ObjectStoreStats::max_namespaces. */
  uint64_t reserved; /**< Zero. */
};
#define NKV_DAEMON_STORE_STATS_BYTES 208
NKV_ASSERT_BYTES(daemon_store_stats, 208);
NKV_ASSERT_OFFSET(daemon_store_stats, total_bytes, 0);
NKV_ASSERT_OFFSET(daemon_store_stats, used_bytes, 8);
NKV_ASSERT_OFFSET(daemon_store_stats, object_bytes, 16);
NKV_ASSERT_OFFSET(daemon_store_stats, objects, 24);
NKV_ASSERT_OFFSET(daemon_store_stats, namespaces, 32);
NKV_ASSERT_OFFSET(daemon_store_stats, leases, 40);
NKV_ASSERT_OFFSET(daemon_store_stats, sets, 48);
NKV_ASSERT_OFFSET(daemon_store_stats, set_bytes, 56);
NKV_ASSERT_OFFSET(daemon_store_stats, hits, 64);
NKV_ASSERT_OFFSET(daemon_store_stats, get_bytes, 72);
NKV_ASSERT_OFFSET(daemon_store_stats, misses, 80);
NKV_ASSERT_OFFSET(daemon_store_stats, evictions, 88);
NKV_ASSERT_OFFSET(daemon_store_stats, expirations, 96);
NKV_ASSERT_OFFSET(daemon_store_stats, corruptions, 104);
NKV_ASSERT_OFFSET(daemon_store_stats, recovered, 112);
NKV_ASSERT_OFFSET(daemon_store_stats, torn, 120);
NKV_ASSERT_OFFSET(daemon_store_stats, moved, 128);
NKV_ASSERT_OFFSET(daemon_store_stats, quarantined, 136);
NKV_ASSERT_OFFSET(daemon_store_stats, demotions, 144);
NKV_ASSERT_OFFSET(daemon_store_stats, promotions, 152);
NKV_ASSERT_OFFSET(daemon_store_stats, slab_bytes, 160);
NKV_ASSERT_OFFSET(daemon_store_stats, scrubbed_bytes, 168);
NKV_ASSERT_OFFSET(daemon_store_stats, clients, 176);
NKV_ASSERT_OFFSET(daemon_store_stats, max_objects, 184);
NKV_ASSERT_OFFSET(daemon_store_stats, max_namespaces, 192);
NKV_ASSERT_OFFSET(daemon_store_stats, reserved, 200);

/** HELLO, CHALLENGE, PROOF and WELCOME. */
struct nkv_remote_hello {
  uint32_t magic; /**< REMOTE_MAGIC. */
  uint32_t kind; /**< HELLO to WELCOME. [a value of remote_kind] */
  uint32_t version; /**< REMOTE_VERSION. */
  /** WELCOME: OK; BAD_ABI or DENIED, and the connection ends. [a value of status] */
  uint8_t status;
  uint8_t reserved[3]; /**< Zero. */
  uint64_t request_area_bytes; /**< WELCOME: size of the window's request area. */
  /** HELLO: wanted size of the window's data area; WELCOME: what the server gives, at most that. */
  uint64_t data_bytes;
  uint8_t nonce[NKV_REMOTE_NONCE_BYTES]; /**< HELLO, CHALLENGE: random. */
  /** PROOF, WELCOME: HMAC-SHA256 over the sender's role and both nonces, with the secret as key. */
  uint8_t proof[NKV_REMOTE_PROOF_BYTES];
  /** WELCOME: for people, in UTF-8: why not. Padded with zeros. */
  uint8_t reason[NKV_DAEMON_REASON_BYTES];
  uint64_t reserved2[4]; /**< Zero. */
};
#define NKV_REMOTE_HELLO_BYTES 512
NKV_ASSERT_BYTES(remote_hello, 512);
NKV_ASSERT_OFFSET(remote_hello, magic, 0);
NKV_ASSERT_OFFSET(remote_hello, kind, 4);
NKV_ASSERT_OFFSET(remote_hello, version, 8);
NKV_ASSERT_OFFSET(remote_hello, status, 12);
NKV_ASSERT_OFFSET(remote_hello, reserved, 13);
NKV_ASSERT_OFFSET(remote_hello, request_area_bytes, 16);
NKV_ASSERT_OFFSET(remote_hello, data_bytes, 24);
NKV_ASSERT_OFFSET(remote_hello, nonce, 32);
NKV_ASSERT_OFFSET(remote_hello, proof, 64);
NKV_ASSERT_OFFSET(remote_hello, reason, 96);
NKV_ASSERT_OFFSET(remote_hello, reserved2, 480);

/** Opens the header of every message after the first four. */
struct nkv_remote_message {
  uint32_t magic; /**< REMOTE_MAGIC. */
  uint32_t kind; /**< DATA, SUBMISSION or COMPLETION. [a value of remote_kind] */
  /** HMAC-SHA256 over both nonces: never sent before it is used, and of this connection alone. */
  uint8_t session[NKV_REMOTE_PROOF_BYTES];
  /** Counts this way's messages from 0 on; each takes effect after all before it. */
  uint64_t number;
  uint32_t runs; /**< DATA: how many. [at most REMOTE_MAX_RUNS] */
  uint32_t checksum; /**< CRC32C of the header with this field zero, then of the message's data. */
  uint64_t reserved; /**< Zero. */
};
#define NKV_REMOTE_MESSAGE_BYTES 64
NKV_ASSERT_BYTES(remote_message, 64);
NKV_ASSERT_OFFSET(remote_message, magic, 0);
NKV_ASSERT_OFFSET(remote_message, kind, 4);
NKV_ASSERT_OFFSET(remote_message, session, 8);
NKV_ASSERT_OFFSET(remote_message, number, 40);
NKV_ASSERT_OFFSET(remote_message, runs, 48);
NKV_ASSERT_OFFSET(remote_message, checksum, 52);
NKV_ASSERT_OFFSET(remote_message, reserved, 56);

/* Registers: byte offsets; 64-bit access only. Masks are in place. */
#define NKV_REG_ID 0x0u /**< [ro] Read first: another value is another device. */
/** [ro] Read second: a library opens a device of the same major number only. */
#define NKV_REG_ABI 0x8u
#define NKV_REG_ABI_MAJOR_SHIFT 0 /**< Incompatible changes. */
#define NKV_REG_ABI_MAJOR_MASK 0xffffull
#define NKV_REG_ABI_MINOR_SHIFT 16 /**< Additions. */
#define NKV_REG_ABI_MINOR_MASK 0xffff0000ull
#define NKV_REG_FEATURES 0x10u /**< [ro] What the device offers. */
#define NKV_REG_MEMORY_BYTES 0x18u /**< [ro] Size of device memory that windows may lie in. */
/**
 * [ro] This device's limits, at or below the contract's. A command beyond one is BAD_FIELD, detail
 * = offset of the field.
 */
#define NKV_REG_LIMITS 0x20u
#define NKV_REG_LIMITS_QUEUES_SHIFT 0 /**< Queues. */
#define NKV_REG_LIMITS_QUEUES_MASK 0xffull
#define NKV_REG_LIMITS_GROUP_SHIFT 8 /**< Largest `group`. */
#define NKV_REG_LIMITS_GROUP_MASK 0xff00ull
#define NKV_REG_LIMITS_HEAD_DIM_SHIFT 16 /**< Largest `head_dim`. */
#define NKV_REG_LIMITS_HEAD_DIM_MASK 0xffff0000ull
#define NKV_REG_LIMITS_TOP_K_SHIFT 32 /**< Largest `top_k`. */
#define NKV_REG_LIMITS_TOP_K_MASK 0xffff00000000ull
/** Longest page list that TOPK and ATTEND take, in tokens, as a power of two. */
#define NKV_REG_LIMITS_TOKENS_LOG2_SHIFT 48
#define NKV_REG_LIMITS_TOKENS_LOG2_MASK 0xff000000000000ull
#define NKV_REG_TICK_HZ 0x28u /**< [ro] Ticks per second in completions; 0 without feature TICKS. */
#define NKV_REG_CONTROL 0x30u /**< [rw] Device control. */
/**
 * Write 1: abort what is in flight, disable all queues. Until memory has answered what was in
 * flight, DEVICE_STATUS.READY is 0: writes of before may still reach memory. Reads 0.
 */
#define NKV_REG_CONTROL_RESET_SHIFT 0
#define NKV_REG_CONTROL_RESET_MASK 0x1ull
#define NKV_REG_DEVICE_STATUS 0x38u /**< [ro] Health. */
#define NKV_REG_DEVICE_STATUS_READY_SHIFT 0 /**< Queues may be enabled, and commands run. */
#define NKV_REG_DEVICE_STATUS_READY_MASK 0x1ull
/**
 * The device has stopped, as when memory does not confirm a completion, or with READY one of its
 * engines, and others go on; reset it.
 */
#define NKV_REG_DEVICE_STATUS_FATAL_SHIFT 1
#define NKV_REG_DEVICE_STATUS_FATAL_MASK 0x2ull
#define NKV_REG_TICK_COUNT 0x40u /**< [ro] Ticks since power-up; 0 without feature TICKS. */
/**
 * [rw] What asks for an interrupt: bit n drives line n unless INTERRUPT_MASK has it. Writing 1 puts
 * a bit back to 0, unless its cause comes again in that cycle; CONTROL.RESET all.
 */
#define NKV_REG_INTERRUPT_STATUS 0x48u
/** The monitor of host accesses: its message number 0. */
#define NKV_REG_INTERRUPT_STATUS_HOST_HOTNESS_SHIFT 0
#define NKV_REG_INTERRUPT_STATUS_HOST_HOTNESS_MASK 0x1ull
/** The monitor of near-data reads: its message number 1. */
#define NKV_REG_INTERRUPT_STATUS_NEAR_HOTNESS_SHIFT 1
#define NKV_REG_INTERRUPT_STATUS_NEAR_HOTNESS_MASK 0x2ull
#define NKV_REG_INTERRUPT_STATUS_ERRORS_SHIFT 2 /**< An entry of the error log. */
#define NKV_REG_INTERRUPT_STATUS_ERRORS_MASK 0x4ull
/** Completions of each queue, as its COALESCE has it. */
#define NKV_REG_INTERRUPT_STATUS_QUEUES_SHIFT 3
#define NKV_REG_INTERRUPT_STATUS_QUEUES_MASK 0x7fff8ull
/** [rw] 1: the bit of INTERRUPT_STATUS does not drive its line. */
#define NKV_REG_INTERRUPT_MASK 0x50u
#define NKV_REG_INTERRUPT_MASK_HOST_HOTNESS_SHIFT 0 /**< As INTERRUPT_STATUS. */
#define NKV_REG_INTERRUPT_MASK_HOST_HOTNESS_MASK 0x1ull
#define NKV_REG_INTERRUPT_MASK_NEAR_HOTNESS_SHIFT 1 /**< As INTERRUPT_STATUS. */
#define NKV_REG_INTERRUPT_MASK_NEAR_HOTNESS_MASK 0x2ull
#define NKV_REG_INTERRUPT_MASK_ERRORS_SHIFT 2 /**< As INTERRUPT_STATUS. */
#define NKV_REG_INTERRUPT_MASK_ERRORS_MASK 0x4ull
#define NKV_REG_INTERRUPT_MASK_QUEUES_SHIFT 3 /**< As INTERRUPT_STATUS. */
#define NKV_REG_INTERRUPT_MASK_QUEUES_MASK 0x7fff8ull
/** [ro] Log of commands that ended with a status other than OK; CONTROL.RESET empties it. */
#define NKV_REG_ERROR_STATE 0x58u
/** Free-running count of entries written, modulo 2^16: entry n stands at n modulo ERROR_ENTRIES. */
#define NKV_REG_ERROR_STATE_TAIL_SHIFT 0
#define NKV_REG_ERROR_STATE_TAIL_MASK 0xffffull
/** Entries that were overwritten before ERROR_HEAD had passed them. */
#define NKV_REG_ERROR_STATE_LOST_SHIFT 16
#define NKV_REG_ERROR_STATE_LOST_MASK 0xffffffff0000ull
#define NKV_REG_ERROR_HEAD 0x60u /**< [rw] How far software has read the log. */
#define NKV_REG_ERROR_HEAD_COUNT_SHIFT 0 /**< Free-running count of entries read, modulo 2^16. */
#define NKV_REG_ERROR_HEAD_COUNT_MASK 0xffffull
/** [rw] Who goes first where the host's accesses and near-data's meet. */
#define NKV_REG_INLINE_CONTROL 0x68u
/** 1: the INLINE registers hold; 0: the device's own values do. */
#define NKV_REG_INLINE_CONTROL_CUSTOM_SHIFT 0
#define NKV_REG_INLINE_CONTROL_CUSTOM_MASK 0x1ull
/** Sixteenths of what memory takes that are near-data's while the host asks too. */
#define NKV_REG_INLINE_CONTROL_SHARE_SHIFT 1
#define NKV_REG_INLINE_CONTROL_SHARE_MASK 0x1eull
/** Near-data that has waited so long goes next. */
#define NKV_REG_INLINE_CONTROL_AGE_CYCLES_SHIFT 5
#define NKV_REG_INLINE_CONTROL_AGE_CYCLES_MASK 0x7fe0ull
/** [rw] Depth of memory's queues, in accesses; more than 1,023 is no limit. */
#define NKV_REG_INLINE_LIMITS 0x70u
/** Near-data may always have so many reads, and writes, in flight, 1 at least. */
#define NKV_REG_INLINE_LIMITS_NEAR_LEAST_SHIFT 0
#define NKV_REG_INLINE_LIMITS_NEAR_LEAST_MASK 0xffffull
/** It may have more while there are fewer reads than this with the host's. */
#define NKV_REG_INLINE_LIMITS_READS_SHIFT 16
#define NKV_REG_INLINE_LIMITS_READS_MASK 0xffff0000ull
#define NKV_REG_INLINE_LIMITS_WRITES_SHIFT 32 /**< The same of writes. */
#define NKV_REG_INLINE_LIMITS_WRITES_MASK 0xffff00000000ull
/** [rw] Accesses in flight from which on DevLoad says more; more than 1,023 count as that. */
#define NKV_REG_INLINE_LOAD 0x78u
#define NKV_REG_INLINE_LOAD_OPTIMAL_SHIFT 0 /**< Optimal instead of light. */
#define NKV_REG_INLINE_LOAD_OPTIMAL_MASK 0xffffull
/**
 * Moderate overload, or severe if the host's alone are so many; severe too while the host may have
 * no more in flight.
 */
#define NKV_REG_INLINE_LOAD_OVERLOAD_SHIFT 16
#define NKV_REG_INLINE_LOAD_OVERLOAD_MASK 0xffff0000ull
/**
 * [rw] First of pages of device memory, DOORBELL_STRIDE_BYTES each, one a queue; a multiple of
 * BURST_BYTES. A page begins with a `doorbell_line`.
 */
#define NKV_REG_DOORBELL_BASE 0x80u
#define NKV_REG_DOORBELL_ENABLE 0x88u /**< [rw] Pages that hold doorbells. */
#define NKV_REG_DOORBELL_ENABLE_QUEUES_SHIFT 0 /**< 1: the page of this queue does. */
#define NKV_REG_DOORBELL_ENABLE_QUEUES_MASK 0xffffull
/**
 * [ro] What TRANSCODE takes. Another codec is UNSUPPORTED: wanted of the command, detail 0; found
 * in a page, detail = the entry's index.
 */
#define NKV_REG_CODECS 0x90u
#define NKV_REG_CODECS_BUILT_SHIFT 0 /**< Bit c: it builds pages of codec c. */
#define NKV_REG_CODECS_BUILT_MASK 0xffffull
#define NKV_REG_CODECS_READ_SHIFT 16 /**< Bit c: it reads pages of codec c. */
#define NKV_REG_CODECS_READ_MASK 0xffff0000ull
/**
 * [ro] An entry of the error log. Still what TAIL announced if TAIL, read again, is not more than
 * ERROR_ENTRIES ahead of it.
 */
#define NKV_REG_ERROR_ENTRY(i) (0x100u + 0x10u * (i))
#define NKV_REG_ERROR_ENTRY_COUNT NKV_ERROR_ENTRIES
#define NKV_REG_ERROR_ENTRY_STRIDE 0x10u
#define NKV_REG_ERROR_ENTRY_TAG_SHIFT 0 /**< Of the command. */
#define NKV_REG_ERROR_ENTRY_TAG_MASK 0xffffull
#define NKV_REG_ERROR_ENTRY_TENANT_SHIFT 16 /**< Of its queue. */
#define NKV_REG_ERROR_ENTRY_TENANT_MASK 0xffff0000ull
#define NKV_REG_ERROR_ENTRY_QUEUE_INDEX_SHIFT 32 /**< Its queue. */
#define NKV_REG_ERROR_ENTRY_QUEUE_INDEX_MASK 0xff00000000ull
#define NKV_REG_ERROR_ENTRY_OPCODE_SHIFT 40 /**< As the command had it. */
#define NKV_REG_ERROR_ENTRY_OPCODE_MASK 0xff0000000000ull
#define NKV_REG_ERROR_ENTRY_STATUS_SHIFT 48 /**< As its completion had it. */
#define NKV_REG_ERROR_ENTRY_STATUS_MASK 0xff000000000000ull
#define NKV_REG_ERROR_DETAIL(i) (0x108u + 0x10u * (i)) /**< [ro] Its completion's `detail`. */
#define NKV_REG_ERROR_DETAIL_COUNT NKV_ERROR_ENTRIES
#define NKV_REG_ERROR_DETAIL_STRIDE 0x10u
/**
 * [rw] Submission ring in device memory; 64-byte aligned, zeroed by the host. Read when the queue
 * is enabled.
 */
#define NKV_REG_SQ_BASE(i) (0x1000u + 0x80u * (i))
#define NKV_REG_SQ_BASE_COUNT NKV_MAX_QUEUES
#define NKV_REG_SQ_BASE_STRIDE 0x80u
/** [rw] Completion ring in device memory; 64-byte aligned, zeroed by the host. */
#define NKV_REG_CQ_BASE(i) (0x1008u + 0x80u * (i))
#define NKV_REG_CQ_BASE_COUNT NKV_MAX_QUEUES
#define NKV_REG_CQ_BASE_STRIDE 0x80u
/** [rw] Entries of both rings, a power of two. */
#define NKV_REG_RING_ENTRIES(i) (0x1010u + 0x80u * (i))
#define NKV_REG_RING_ENTRIES_COUNT NKV_MAX_QUEUES
#define NKV_REG_RING_ENTRIES_STRIDE 0x80u
/**
 * [rw] Queue control. A queue's commands run in order, one at a time, and each finds what those
 * before it wrote. Between queues there is no order: their commands may run at the same time.
 * Memory has all that a command wrote when it completes: who needs that, or is to overwrite or
 * erase what a command of another queue reads or writes, waits for its completion.
 */
#define NKV_REG_QUEUE_CONTROL(i) (0x1018u + 0x80u * (i))
#define NKV_REG_QUEUE_CONTROL_COUNT NKV_MAX_QUEUES
#define NKV_REG_QUEUE_CONTROL_STRIDE 0x80u
/** 0 to 1 starts the queue at index 0, phase 1; 1 to 0 stops it after the command in flight. */
#define NKV_REG_QUEUE_CONTROL_ENABLE_SHIFT 0
#define NKV_REG_QUEUE_CONTROL_ENABLE_MASK 0x1ull
/**
 * [rw] Submission doorbell: free-running count of commands written, modulo 2^16. Each is taken once
 * its slot has the ring's phase (slot_flag).
 */
#define NKV_REG_SQ_TAIL(i) (0x1020u + 0x80u * (i))
#define NKV_REG_SQ_TAIL_COUNT NKV_MAX_QUEUES
#define NKV_REG_SQ_TAIL_STRIDE 0x80u
/**
 * [rw] Free-running count of completions consumed, modulo 2^16; the device never overwrites an
 * unread one.
 */
#define NKV_REG_CQ_HEAD(i) (0x1028u + 0x80u * (i))
#define NKV_REG_CQ_HEAD_COUNT NKV_MAX_QUEUES
#define NKV_REG_CQ_HEAD_STRIDE 0x80u
/**
 * [rw] First byte of device memory that the queue's commands may touch, a multiple of
 * PAGE_GRAIN_BYTES; address 0 of the window.
 */
#define NKV_REG_WINDOW_BASE(i) (0x1030u + 0x80u * (i))
#define NKV_REG_WINDOW_BASE_COUNT NKV_MAX_QUEUES
#define NKV_REG_WINDOW_BASE_STRIDE 0x80u
#define NKV_REG_WINDOW_BYTES(i) (0x1038u + 0x80u * (i)) /**< [rw] Size of the window. */
#define NKV_REG_WINDOW_BYTES_COUNT NKV_MAX_QUEUES
#define NKV_REG_WINDOW_BYTES_STRIDE 0x80u
/** [rw] Tenant number written into page headers; a page of another tenant is BAD_PAGE. */
#define NKV_REG_TENANT(i) (0x1040u + 0x80u * (i))
#define NKV_REG_TENANT_COUNT NKV_MAX_QUEUES
#define NKV_REG_TENANT_STRIDE 0x80u
#define NKV_REG_TENANT_NUMBER_SHIFT 0 /**< Tenant. */
#define NKV_REG_TENANT_NUMBER_MASK 0xffffull
#define NKV_REG_QUEUE_STATUS(i) (0x1048u + 0x80u * (i)) /**< [ro] Queue state. */
#define NKV_REG_QUEUE_STATUS_COUNT NKV_MAX_QUEUES
#define NKV_REG_QUEUE_STATUS_STRIDE 0x80u
/** Enabled and accepted; of a queue that was disabled, until nothing of it is in flight. */
#define NKV_REG_QUEUE_STATUS_RUNNING_SHIFT 0
#define NKV_REG_QUEUE_STATUS_RUNNING_MASK 0x1ull
/**
 * Enabling failed: rings or window lie outside memory, the window is empty or begins off a page
 * grain, or RING_ENTRIES is not a power of two within limits.
 */
#define NKV_REG_QUEUE_STATUS_REFUSED_SHIFT 1
#define NKV_REG_QUEUE_STATUS_REFUSED_MASK 0x2ull
/**
 * [rw] The queue's share of the device against those of others that have commands too, in bursts
 * moved.
 */
#define NKV_REG_WEIGHT(i) (0x1050u + 0x80u * (i))
#define NKV_REG_WEIGHT_COUNT NKV_MAX_QUEUES
#define NKV_REG_WEIGHT_STRIDE 0x80u
#define NKV_REG_WEIGHT_SHARE_SHIFT 0 /**< 0 counts as 1. */
#define NKV_REG_WEIGHT_SHARE_MASK 0xfull
/**
 * [rw] When completions ask for an interrupt: when so many wait, or the oldest has waited so long.
 * With either 0, each at once.
 */
#define NKV_REG_COALESCE(i) (0x1058u + 0x80u * (i))
#define NKV_REG_COALESCE_COUNT NKV_MAX_QUEUES
#define NKV_REG_COALESCE_STRIDE 0x80u
#define NKV_REG_COALESCE_COMPLETIONS_SHIFT 0 /**< Completions that have not asked yet. */
#define NKV_REG_COALESCE_COMPLETIONS_MASK 0xffffull
#define NKV_REG_COALESCE_WAIT_TICKS_SHIFT 16 /**< Since the first of them, and up to 16 more. */
#define NKV_REG_COALESCE_WAIT_TICKS_MASK 0xffffffff0000ull
/**
 * [ro] Commands that ended, other than by CONTROL.RESET, which puts all TOTAL registers back to 0.
 * They change a few ticks after the completion is written.
 */
#define NKV_REG_TOTAL_COMMANDS(i) (0x1800u + 0x80u * (i))
#define NKV_REG_TOTAL_COMMANDS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_COMMANDS_STRIDE 0x80u
/** [ro] Sum of `stream_bursts` of completions. */
#define NKV_REG_TOTAL_STREAM_BURSTS(i) (0x1808u + 0x80u * (i))
#define NKV_REG_TOTAL_STREAM_BURSTS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_STREAM_BURSTS_STRIDE 0x80u
#define NKV_REG_TOTAL_REFINE_BURSTS(i) (0x1810u + 0x80u * (i)) /**< [ro] Sum of `refine_bursts`. */
#define NKV_REG_TOTAL_REFINE_BURSTS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_REFINE_BURSTS_STRIDE 0x80u
#define NKV_REG_TOTAL_EXACT_BURSTS(i) (0x1818u + 0x80u * (i)) /**< [ro] Sum of `exact_bursts`. */
#define NKV_REG_TOTAL_EXACT_BURSTS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_EXACT_BURSTS_STRIDE 0x80u
#define NKV_REG_TOTAL_VALUE_BURSTS(i) (0x1820u + 0x80u * (i)) /**< [ro] Sum of `value_bursts`. */
#define NKV_REG_TOTAL_VALUE_BURSTS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_VALUE_BURSTS_STRIDE 0x80u
/** [ro] Bursts that commands wrote, other than completions. */
#define NKV_REG_TOTAL_WRITTEN_BURSTS(i) (0x1828u + 0x80u * (i))
#define NKV_REG_TOTAL_WRITTEN_BURSTS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_WRITTEN_BURSTS_STRIDE 0x80u
/**
 * [ro] With a command of the queue in flight. Of these, each counted once, by the first that holds:
 */
#define NKV_REG_TOTAL_BUSY_TICKS(i) (0x1830u + 0x80u * (i))
#define NKV_REG_TOTAL_BUSY_TICKS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_BUSY_TICKS_STRIDE 0x80u
/** [ro] a read was refused by the memory port, */
#define NKV_REG_TOTAL_READ_REFUSED_TICKS(i) (0x1838u + 0x80u * (i))
#define NKV_REG_TOTAL_READ_REFUSED_TICKS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_READ_REFUSED_TICKS_STRIDE 0x80u
#define NKV_REG_TOTAL_WRITE_REFUSED_TICKS(i) (0x1840u + 0x80u * (i)) /**< [ro] a write was, */
#define NKV_REG_TOTAL_WRITE_REFUSED_TICKS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_WRITE_REFUSED_TICKS_STRIDE 0x80u
/** [ro] reads or writes were under way, and neither was one asked for nor answered. */
#define NKV_REG_TOTAL_MEMORY_WAIT_TICKS(i) (0x1848u + 0x80u * (i))
#define NKV_REG_TOTAL_MEMORY_WAIT_TICKS_COUNT NKV_MAX_QUEUES
#define NKV_REG_TOTAL_MEMORY_WAIT_TICKS_STRIDE 0x80u
/** [rw] Words of a CHMU register block of the CXL specification: it counts the host's accesses. */
#define NKV_REG_HOST_HOTNESS(i) (0x10000u + 0x8u * (i))
#define NKV_REG_HOST_HOTNESS_COUNT NKV_HOTNESS_WORDS
#define NKV_REG_HOST_HOTNESS_STRIDE 0x8u
/**
 * [rw] The same for near-data: it counts what commands read, in runs of up to 16 bursts within 4
 * KiB.
 */
#define NKV_REG_NEAR_HOTNESS(i) (0x20000u + 0x8u * (i))
#define NKV_REG_NEAR_HOTNESS_COUNT NKV_HOTNESS_WORDS
#define NKV_REG_NEAR_HOTNESS_STRIDE 0x8u
#define NKV_REG_MAP_BYTES 0x24000u /**< Bytes that all registers span. */

/** Whether a register stands at this very offset, on devices that offer its feature. */
static inline int nkv_is_register(uint32_t offset) {
  if (offset >= 0x100u && offset < 0x200u) {
    offset = 0x100u + offset % 0x10u;
  }
  if (offset >= 0x1000u && offset < 0x1800u) {
    offset = 0x1000u + offset % 0x80u;
  }
  if (offset >= 0x1800u && offset < 0x2000u) {
    offset = 0x1800u + offset % 0x80u;
  }
  if (offset >= 0x10000u && offset < 0x14000u) {
    offset = 0x10000u + offset % 0x8u;
  }
  if (offset >= 0x20000u && offset < 0x24000u) {
    offset = 0x20000u + offset % 0x8u;
  }
  switch (offset) {
    case NKV_REG_ID:
    case NKV_REG_ABI:
    case NKV_REG_FEATURES:
    case NKV_REG_MEMORY_BYTES:
    case NKV_REG_LIMITS:
    case NKV_REG_TICK_HZ:
    case NKV_REG_CONTROL:
    case NKV_REG_DEVICE_STATUS:
    case NKV_REG_TICK_COUNT:
    case NKV_REG_INTERRUPT_STATUS:
    case NKV_REG_INTERRUPT_MASK:
    case NKV_REG_ERROR_STATE:
    case NKV_REG_ERROR_HEAD:
    case NKV_REG_INLINE_CONTROL:
    case NKV_REG_INLINE_LIMITS:
    case NKV_REG_INLINE_LOAD:
    case NKV_REG_DOORBELL_BASE:
    case NKV_REG_DOORBELL_ENABLE:
    case NKV_REG_CODECS:
    case NKV_REG_ERROR_ENTRY(0u):
    case NKV_REG_ERROR_DETAIL(0u):
    case NKV_REG_SQ_BASE(0u):
    case NKV_REG_CQ_BASE(0u):
    case NKV_REG_RING_ENTRIES(0u):
    case NKV_REG_QUEUE_CONTROL(0u):
    case NKV_REG_SQ_TAIL(0u):
    case NKV_REG_CQ_HEAD(0u):
    case NKV_REG_WINDOW_BASE(0u):
    case NKV_REG_WINDOW_BYTES(0u):
    case NKV_REG_TENANT(0u):
    case NKV_REG_QUEUE_STATUS(0u):
    case NKV_REG_WEIGHT(0u):
    case NKV_REG_COALESCE(0u):
    case NKV_REG_TOTAL_COMMANDS(0u):
    case NKV_REG_TOTAL_STREAM_BURSTS(0u):
    case NKV_REG_TOTAL_REFINE_BURSTS(0u):
    case NKV_REG_TOTAL_EXACT_BURSTS(0u):
    case NKV_REG_TOTAL_VALUE_BURSTS(0u):
    case NKV_REG_TOTAL_WRITTEN_BURSTS(0u):
    case NKV_REG_TOTAL_BUSY_TICKS(0u):
    case NKV_REG_TOTAL_READ_REFUSED_TICKS(0u):
    case NKV_REG_TOTAL_WRITE_REFUSED_TICKS(0u):
    case NKV_REG_TOTAL_MEMORY_WAIT_TICKS(0u):
    case NKV_REG_HOST_HOTNESS(0u):
    case NKV_REG_NEAR_HOTNESS(0u):
      return 1;
    default:
      return 0;
  }
}

/* EUCLEAN is Linux's own; other C libraries get its number. */
#ifdef EUCLEAN
#define NKV_EUCLEAN EUCLEAN
#else
#define NKV_EUCLEAN 117
#endif

/** The errno of a status, positive; EPROTO for a status that this header does not know. */
static inline int nkv_status_errno(uint8_t status) {
  switch (status) {
    case NKV_STATUS_OK:
      return 0;
    case NKV_STATUS_BAD_OPCODE:
      return EINVAL;
    case NKV_STATUS_BAD_FIELD:
      return EINVAL;
    case NKV_STATUS_ADDRESS_FAULT:
      return EFAULT;
    case NKV_STATUS_STALE_PAGE:
      return ESTALE;
    case NKV_STATUS_BAD_PAGE:
      return EINVAL;
    case NKV_STATUS_CORRUPT:
      return EBADMSG;
    case NKV_STATUS_POISON:
      return EIO;
    case NKV_STATUS_PAGE_OVERFLOW:
      return EMSGSIZE;
    case NKV_STATUS_BAD_QUERY:
      return EDOM;
    case NKV_STATUS_UNSUPPORTED:
      return EOPNOTSUPP;
    case NKV_STATUS_COLD_PAGE:
      return NKV_EUCLEAN;
    case NKV_STATUS_ABORTED:
      return ECANCELED;
    case NKV_STATUS_INTERNAL:
      return EIO;
    case NKV_STATUS_NOT_WRITTEN:
      return EPROTO;
    case NKV_STATUS_NO_DEVICE:
      return ENODEV;
    case NKV_STATUS_BAD_URI:
      return EINVAL;
    case NKV_STATUS_BAD_ABI:
      return EPROTO;
    case NKV_STATUS_BAD_ARGUMENT:
      return EINVAL;
    case NKV_STATUS_POOL_FULL:
      return ENOSPC;
    case NKV_STATUS_NOT_FOUND:
      return ENOENT;
    case NKV_STATUS_EXISTS:
      return EEXIST;
    case NKV_STATUS_QUEUE_FULL:
      return EAGAIN;
    case NKV_STATUS_TIMEOUT:
      return ETIMEDOUT;
    case NKV_STATUS_BAD_POOL:
      return NKV_EUCLEAN;
    case NKV_STATUS_IO_ERROR:
      return EIO;
    case NKV_STATUS_OUT_OF_MEMORY:
      return ENOMEM;
    case NKV_STATUS_CODEC_ERROR:
      return EBADMSG;
    case NKV_STATUS_CANCELLED:
      return ECANCELED;
    case NKV_STATUS_BUSY:
      return EBUSY;
    case NKV_STATUS_QUOTA:
      return EDQUOT;
    case NKV_STATUS_DENIED:
      return EACCES;
    case NKV_STATUS_NO_DAEMON:
      return ECONNREFUSED;
    case NKV_STATUS_FORKED:
      return ESTALE;
    case NKV_STATUS_NAME_TOO_LONG:
      return ENAMETOOLONG;
    case NKV_STATUS_OBJECT_TOO_LARGE:
      return EFBIG;
    case NKV_STATUS_NAMESPACES_FULL:
      return ENOSPC;
    case NKV_STATUS_WINDOW_TOO_SMALL:
      return EMSGSIZE;
    case NKV_STATUS_FENCED:
      return ESTALE;
    case NKV_STATUS_NOT_YET:
      return EAGAIN;
    default:
      return EPROTO;
  }
}

/** What a person should read about a status. Never null. */
static inline const char *nkv_status_message(uint8_t status) {
  switch (status) {
    case NKV_STATUS_OK:
      return "done";
    case NKV_STATUS_BAD_OPCODE:
      return "the opcode is unknown to this device; check that library and device have the same "
             "ABI";
    case NKV_STATUS_BAD_FIELD:
      return "a command field is out of range; detail is the field's byte offset";
    case NKV_STATUS_ADDRESS_FAULT:
      return "an address lies outside the queue's window; detail is the address";
    case NKV_STATUS_STALE_PAGE:
      return "the page was freed or rewritten since its entry was made; detail is the entry's "
             "index; look the sequence up again";
    case NKV_STATUS_BAD_PAGE:
      return "a page's shape or format does not fit the command; detail is the entry's index";
    case NKV_STATUS_CORRUPT:
      return "a checksum is wrong, so the page or object was not used; detail is the entry's "
             "index; drop the sequence or object and recompute it";
    case NKV_STATUS_POISON:
      return "the memory reported poison; detail is the entry's index; drop the sequence or "
             "object and recompute it";
    case NKV_STATUS_PAGE_OVERFLOW:
      return "these rows do not fit the compact row form; detail is the page's index; append it "
             "with row form RAW";
    case NKV_STATUS_BAD_QUERY:
      return "the query holds a NaN or an infinity; detail is the row";
    case NKV_STATUS_UNSUPPORTED:
      return "this device does not offer the requested mode; read FEATURES";
    case NKV_STATUS_COLD_PAGE:
      return "a page is compressed; transcode it to codec NONE first; detail is the entry's index";
    case NKV_STATUS_ABORTED:
      return "the device was reset while the command was in flight; submit it again";
    case NKV_STATUS_INTERNAL:
      return "the device failed; read DEVICE_STATUS";
    case NKV_STATUS_NOT_WRITTEN:
      return "a doorbell told of a command that was not written to the ring in time; the "
             "completion's sq_head tells which; write commands with the ring's phase, then ring";
    case NKV_STATUS_NO_DEVICE:
      return "no such device, or it cannot be opened";
    case NKV_STATUS_BAD_URI:
      return "the device URI is malformed; see nearkv/device.hpp";
    case NKV_STATUS_BAD_ABI:
      return "the device speaks another ABI; rebuild the library or update the device";
    case NKV_STATUS_BAD_ARGUMENT:
      return "an argument is out of range";
    case NKV_STATUS_POOL_FULL:
      return "the pool has no room left that may be used; drop or unpin something, or open a "
             "larger pool";
    case NKV_STATUS_NOT_FOUND:
      return "no such sequence, object or namespace";
    case NKV_STATUS_EXISTS:
      return "it exists already";
    case NKV_STATUS_QUEUE_FULL:
      return "the queue is full; poll completions and submit again";
    case NKV_STATUS_TIMEOUT:
      return "the device did not answer in time";
    case NKV_STATUS_BAD_POOL:
      return "the memory holds no NearKV pool, or one of another version; create it anew";
    case NKV_STATUS_IO_ERROR:
      return "the operating system refused an operation on the pool's memory";
    case NKV_STATUS_OUT_OF_MEMORY:
      return "not enough memory";
    case NKV_STATUS_CODEC_ERROR:
      return "compressed data is damaged";
    case NKV_STATUS_CANCELLED:
      return "the job was cancelled before this item began";
    case NKV_STATUS_BUSY:
      return "the object is leased or being written; try again when that is over";
    case NKV_STATUS_QUOTA:
      return "the tenant's quota is used up by objects that cannot be evicted; unpin some or "
             "raise it";
    case NKV_STATUS_DENIED:
      return "this client may not do that; see the permissions of its tenant";
    case NKV_STATUS_NO_DAEMON:
      return "the daemon does not answer; start `nearkv serve`, or wait for its restart and try "
             "again";
    case NKV_STATUS_FORKED:
      return "opened before this process was made by fork(), and of no use in it; open or connect "
             "again here";
    case NKV_STATUS_NAME_TOO_LONG:
      return "the namespace's model, dtype and layout are too long together; they may have 960 "
             "bytes";
    case NKV_STATUS_OBJECT_TOO_LARGE:
      return "the object is too large; it may have 536870912 bytes (512 MiB)";
    case NKV_STATUS_NAMESPACES_FULL:
      return "each namespace that may be there has objects or users; erase a namespace's objects "
             "and close it, or raise max_namespaces: a tenant's in the daemon's configuration, a "
             "pool's when it is made";
    case NKV_STATUS_WINDOW_TOO_SMALL:
      return "the object does not fit the half of the window that carries bytes to the daemon; "
             "raise window_bytes and the daemon's clients.window, or use memory of allocate()";
    case NKV_STATUS_FENCED:
      return "the other hosts hold this one for dead; drop its objects and join again";
    case NKV_STATUS_NOT_YET:
      return "other hosts have not answered yet; poll and call again";
    default:
      return "unknown status; check that library and device have the same ABI";
  }
}

/** The name of a status as the contract writes it. Never null. */
static inline const char *nkv_status_name(uint8_t status) {
  switch (status) {
    case NKV_STATUS_OK:
      return "OK";
    case NKV_STATUS_BAD_OPCODE:
      return "BAD_OPCODE";
    case NKV_STATUS_BAD_FIELD:
      return "BAD_FIELD";
    case NKV_STATUS_ADDRESS_FAULT:
      return "ADDRESS_FAULT";
    case NKV_STATUS_STALE_PAGE:
      return "STALE_PAGE";
    case NKV_STATUS_BAD_PAGE:
      return "BAD_PAGE";
    case NKV_STATUS_CORRUPT:
      return "CORRUPT";
    case NKV_STATUS_POISON:
      return "POISON";
    case NKV_STATUS_PAGE_OVERFLOW:
      return "PAGE_OVERFLOW";
    case NKV_STATUS_BAD_QUERY:
      return "BAD_QUERY";
    case NKV_STATUS_UNSUPPORTED:
      return "UNSUPPORTED";
    case NKV_STATUS_COLD_PAGE:
      return "COLD_PAGE";
    case NKV_STATUS_ABORTED:
      return "ABORTED";
    case NKV_STATUS_INTERNAL:
      return "INTERNAL";
    case NKV_STATUS_NOT_WRITTEN:
      return "NOT_WRITTEN";
    case NKV_STATUS_NO_DEVICE:
      return "NO_DEVICE";
    case NKV_STATUS_BAD_URI:
      return "BAD_URI";
    case NKV_STATUS_BAD_ABI:
      return "BAD_ABI";
    case NKV_STATUS_BAD_ARGUMENT:
      return "BAD_ARGUMENT";
    case NKV_STATUS_POOL_FULL:
      return "POOL_FULL";
    case NKV_STATUS_NOT_FOUND:
      return "NOT_FOUND";
    case NKV_STATUS_EXISTS:
      return "EXISTS";
    case NKV_STATUS_QUEUE_FULL:
      return "QUEUE_FULL";
    case NKV_STATUS_TIMEOUT:
      return "TIMEOUT";
    case NKV_STATUS_BAD_POOL:
      return "BAD_POOL";
    case NKV_STATUS_IO_ERROR:
      return "IO_ERROR";
    case NKV_STATUS_OUT_OF_MEMORY:
      return "OUT_OF_MEMORY";
    case NKV_STATUS_CODEC_ERROR:
      return "CODEC_ERROR";
    case NKV_STATUS_CANCELLED:
      return "CANCELLED";
    case NKV_STATUS_BUSY:
      return "BUSY";
    case NKV_STATUS_QUOTA:
      return "QUOTA";
    case NKV_STATUS_DENIED:
      return "DENIED";
    case NKV_STATUS_NO_DAEMON:
      return "NO_DAEMON";
    case NKV_STATUS_FORKED:
      return "FORKED";
    case NKV_STATUS_NAME_TOO_LONG:
      return "NAME_TOO_LONG";
    case NKV_STATUS_OBJECT_TOO_LARGE:
      return "OBJECT_TOO_LARGE";
    case NKV_STATUS_NAMESPACES_FULL:
      return "NAMESPACES_FULL";
    case NKV_STATUS_WINDOW_TOO_SMALL:
      return "WINDOW_TOO_SMALL";
    case NKV_STATUS_FENCED:
      return "FENCED";
    case NKV_STATUS_NOT_YET:
      return "NOT_YET";
    default:
      return "UNKNOWN";
  }
}

/** Bytes of one element; 0 for an unknown type. */
static inline uint32_t nkv_element_bytes(uint8_t dtype) {
  switch (dtype) {
    case NKV_DTYPE_BF16:
      return 2;
    case NKV_DTYPE_FP16:
      return 2;
    case NKV_DTYPE_FP32:
      return 4;
    case NKV_DTYPE_FP8_E4M3:
      return 1;
    case NKV_DTYPE_FP8_E5M2:
      return 1;
    case NKV_DTYPE_INT8:
      return 1;
    default:
      return 0;
  }
}

/** Bytes of one row of `dim` channels as a page stores it; 0 for an unknown form. */
static inline uint32_t nkv_row_bytes(uint8_t form, uint8_t dtype, uint32_t dim) {
  const uint32_t element_bytes = nkv_element_bytes(dtype);
  switch (form) {
    case NKV_ROW_FORM_RAW:
      return dim * element_bytes;
    case NKV_ROW_FORM_DELTA4:
      return dim + dim / 2;
    case NKV_ROW_FORM_NONE:
      return 0;
    default:
      return 0;
  }
}

/** The arrays of a page, in the order of their places. */
enum nkv_page_array {
  NKV_PAGE_ARRAY_K_EXPONENTS = 0,
  NKV_PAGE_ARRAY_K_ROWS = 1,
  NKV_PAGE_ARRAY_K_EXCEPTIONS = 2,
  NKV_PAGE_ARRAY_KEY_SCALES = 3,
  NKV_PAGE_ARRAY_V_EXPONENTS = 4,
  NKV_PAGE_ARRAY_V_ROWS = 5,
  NKV_PAGE_ARRAY_V_EXCEPTIONS = 6,
  NKV_PAGE_ARRAY_CODE_SUMMARY = 7,
  NKV_PAGE_ARRAY_K_SIGNS = 8,
  NKV_PAGE_ARRAY_K_CODES = 9,
  NKV_PAGE_ARRAY_V_CODES = 10,
  NKV_PAGE_ARRAY_K_GAINS = 11,
};
#define NKV_PAGE_ARRAY_COUNT 12

/** The fields of a page header that decide its layout. */
struct nkv_page_shape {
  uint8_t k_form;
  uint8_t v_form;
  uint8_t dtype;
  uint8_t flags;
  uint16_t head_dim;
  uint16_t value_dim;
};

/** Where the arrays lie, in bytes from the page's start; an absent one has 0 bytes. */
struct nkv_page_layout {
  uint32_t offset[NKV_PAGE_ARRAY_COUNT];
  uint32_t bytes[NKV_PAGE_ARRAY_COUNT];
  uint32_t total_bytes; /**< A multiple of NKV_PAGE_GRAIN_BYTES, header included. */
};

/** Lays out a page. Any shape gives a layout; whether it makes sense is not judged. */
static inline void nkv_lay_out_page(const struct nkv_page_shape *shape,
                                    struct nkv_page_layout *layout) {
  const uint32_t head_dim = shape->head_dim;
  const uint32_t value_dim = shape->value_dim;
  const uint32_t k_row_bytes = nkv_row_bytes(shape->k_form, shape->dtype, head_dim);
  const uint32_t v_row_bytes = nkv_row_bytes(shape->v_form, shape->dtype, value_dim);
  uint32_t end = NKV_PAGE_HEADER_BYTES;
  uint32_t i;

  layout->bytes[NKV_PAGE_ARRAY_K_EXPONENTS] = shape->k_form == NKV_ROW_FORM_DELTA4 ? head_dim : 0;
  layout->bytes[NKV_PAGE_ARRAY_K_ROWS] = NKV_PAGE_TOKENS * k_row_bytes;
  layout->bytes[NKV_PAGE_ARRAY_K_EXCEPTIONS] =
      shape->k_form == NKV_ROW_FORM_DELTA4 ? 4 * NKV_EXCEPTIONS : 0;
  layout->bytes[NKV_PAGE_ARRAY_KEY_SCALES] =
      (shape->flags & NKV_PAGE_FLAG_KEY_SCALES) != 0 ? 4 * NKV_PAGE_TOKENS : 0;
  layout->bytes[NKV_PAGE_ARRAY_V_EXPONENTS] = shape->v_form == NKV_ROW_FORM_DELTA4 ? value_dim : 0;
  layout->bytes[NKV_PAGE_ARRAY_V_ROWS] = NKV_PAGE_TOKENS * v_row_bytes;
  layout->bytes[NKV_PAGE_ARRAY_V_EXCEPTIONS] =
      shape->v_form == NKV_ROW_FORM_DELTA4 ? 4 * NKV_EXCEPTIONS : 0;
  layout->bytes[NKV_PAGE_ARRAY_CODE_SUMMARY] =
      (shape->flags & NKV_PAGE_FLAG_CODES) != 0 ? NKV_PAGE_TOKENS + head_dim + value_dim : 0;
  layout->bytes[NKV_PAGE_ARRAY_K_SIGNS] =
      (shape->flags & NKV_PAGE_FLAG_CODES) != 0 ? NKV_PAGE_TOKENS / 8 * head_dim : 0;
  layout->bytes[NKV_PAGE_ARRAY_K_CODES] =
      (shape->flags & NKV_PAGE_FLAG_CODES) != 0 ? 3 * NKV_PAGE_TOKENS / 8 * head_dim : 0;
  layout->bytes[NKV_PAGE_ARRAY_V_CODES] =
      (shape->flags & NKV_PAGE_FLAG_CODES) != 0 ? 3 * NKV_PAGE_TOKENS / 8 * value_dim : 0;
  layout->bytes[NKV_PAGE_ARRAY_K_GAINS] = (shape->flags & NKV_PAGE_FLAG_CODES) != 0 ? head_dim : 0;

  for (i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) {
    layout->offset[i] = end;
    end += (layout->bytes[i] + NKV_BURST_BYTES - 1) / NKV_BURST_BYTES * NKV_BURST_BYTES;
  }
  layout->total_bytes =
      (end + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
}

/** The answer of a checker that found its first bad field at a byte offset. */
static inline uint8_t nkv_bad_field(uint64_t offset, uint64_t *detail) {
  *detail = offset;
  return NKV_STATUS_BAD_FIELD;
}

/** Checks each field of a nkv_append_command by itself: NKV_STATUS_OK, or
 * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */
static inline uint8_t nkv_check_append_command(const struct nkv_append_command *command,
                                               uint64_t *detail) {
  if (command->opcode != NKV_OPCODE_APPEND) {
    return nkv_bad_field(offsetof(struct nkv_append_command, opcode), detail);
  }
  if ((command->flags & ~NKV_APPEND_FLAG_ALL) != 0) {
    return nkv_bad_field(offsetof(struct nkv_append_command, flags), detail);
  }
  if (command->head_dim < 16u || command->head_dim > NKV_MAX_HEAD_DIM ||
      command->head_dim % 16u != 0) {
    return nkv_bad_field(offsetof(struct nkv_append_command, head_dim), detail);
  }
  if (command->value_dim > NKV_MAX_HEAD_DIM || command->value_dim % 16u != 0) {
    return nkv_bad_field(offsetof(struct nkv_append_command, value_dim), detail);
  }
  if (command->tokens < NKV_PAGE_TOKENS || command->tokens > NKV_MAX_TOKENS ||
      command->tokens % NKV_PAGE_TOKENS != 0) {
    return nkv_bad_field(offsetof(struct nkv_append_command, tokens), detail);
  }
  if (command->first_token % NKV_PAGE_TOKENS != 0) {
    return nkv_bad_field(offsetof(struct nkv_append_command, first_token), detail);
  }
  if (command->page_list % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_append_command, page_list), detail);
  }
  if (command->key_stride < 1u) {
    return nkv_bad_field(offsetof(struct nkv_append_command, key_stride), detail);
  }
  if (command->dtype > NKV_DTYPE_INT8) {
    return nkv_bad_field(offsetof(struct nkv_append_command, dtype), detail);
  }
  if (command->k_form > NKV_ROW_FORM_NONE) {
    return nkv_bad_field(offsetof(struct nkv_append_command, k_form), detail);
  }
  if (command->v_form > NKV_ROW_FORM_NONE) {
    return nkv_bad_field(offsetof(struct nkv_append_command, v_form), detail);
  }
  *detail = 0;
  return NKV_STATUS_OK;
}

/** Checks each field of a nkv_attend_command by itself: NKV_STATUS_OK, or
 * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */
static inline uint8_t nkv_check_attend_command(const struct nkv_attend_command *command,
                                               uint64_t *detail) {
  if (command->opcode != NKV_OPCODE_ATTEND) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, opcode), detail);
  }
  if ((command->flags & ~NKV_ATTEND_FLAG_ALL) != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, flags), detail);
  }
  if (command->head_dim < 16u || command->head_dim > NKV_MAX_HEAD_DIM ||
      command->head_dim % 16u != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, head_dim), detail);
  }
  if (command->value_dim < 16u || command->value_dim > NKV_MAX_HEAD_DIM ||
      command->value_dim % 16u != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, value_dim), detail);
  }
  if (command->tokens > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, tokens), detail);
  }
  if (command->query % 4u != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, query), detail);
  }
  if (command->page_list % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, page_list), detail);
  }
  if (command->result % NKV_BURST_BYTES != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, result), detail);
  }
  if (command->top_k > NKV_MAX_TOP_K) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, top_k), detail);
  }
  if (command->mode > NKV_ATTEND_MODE_BOUNDED) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, mode), detail);
  }
  if (command->group < 1u || command->group > NKV_MAX_GROUP) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, group), detail);
  }
  if (command->query_dtype > NKV_DTYPE_INT8) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, query_dtype), detail);
  }
  if (command->reserved != 0) {
    return nkv_bad_field(offsetof(struct nkv_attend_command, reserved), detail);
  }
  *detail = 0;
  return NKV_STATUS_OK;
}

/** Checks each field of a nkv_topk_command by itself: NKV_STATUS_OK, or
 * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */
static inline uint8_t nkv_check_topk_command(const struct nkv_topk_command *command,
                                             uint64_t *detail) {
  if (command->opcode != NKV_OPCODE_TOPK) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, opcode), detail);
  }
  if (command->flags > 0u) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, flags), detail);
  }
  if (command->head_dim < 16u || command->head_dim > NKV_MAX_HEAD_DIM ||
      command->head_dim % 16u != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, head_dim), detail);
  }
  if (command->reserved != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, reserved), detail);
  }
  if (command->tokens > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, tokens), detail);
  }
  if (command->query % 4u != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, query), detail);
  }
  if (command->page_list % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, page_list), detail);
  }
  if (command->result % NKV_BURST_BYTES != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, result), detail);
  }
  if (command->reserved2 != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, reserved2), detail);
  }
  if (command->reserved3 != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, reserved3), detail);
  }
  if (command->top_k < 1u || command->top_k > NKV_MAX_TOP_K) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, top_k), detail);
  }
  if (command->mode != NKV_SELECT_STATISTICAL && command->mode != NKV_SELECT_FULL &&
      command->mode != NKV_SELECT_INDEXER) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, mode), detail);
  }
  if (command->group < 1u || command->group > NKV_MAX_GROUP) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, group), detail);
  }
  if (command->query_dtype > NKV_DTYPE_INT8) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, query_dtype), detail);
  }
  if (command->weights % 4u != 0) {
    return nkv_bad_field(offsetof(struct nkv_topk_command, weights), detail);
  }
  *detail = 0;
  return NKV_STATUS_OK;
}

/** Checks each field of a nkv_read_command by itself: NKV_STATUS_OK, or
 * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */
static inline uint8_t nkv_check_read_command(const struct nkv_read_command *command,
                                             uint64_t *detail) {
  if (command->opcode != NKV_OPCODE_READ) {
    return nkv_bad_field(offsetof(struct nkv_read_command, opcode), detail);
  }
  if ((command->flags & ~NKV_READ_FLAG_ALL) != 0) {
    return nkv_bad_field(offsetof(struct nkv_read_command, flags), detail);
  }
  if (command->tensor > NKV_TENSOR_BOTH) {
    return nkv_bad_field(offsetof(struct nkv_read_command, tensor), detail);
  }
  if (command->planes > NKV_KEY_CODE_PLANES) {
    return nkv_bad_field(offsetof(struct nkv_read_command, planes), detail);
  }
  if (command->reserved != 0) {
    return nkv_bad_field(offsetof(struct nkv_read_command, reserved), detail);
  }
  if (command->first > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_read_command, first), detail);
  }
  if (command->count < 1u || command->count > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_read_command, count), detail);
  }
  if (command->reserved2 != 0) {
    return nkv_bad_field(offsetof(struct nkv_read_command, reserved2), detail);
  }
  if (command->page_list % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_read_command, page_list), detail);
  }
  if (command->result % NKV_BURST_BYTES != 0) {
    return nkv_bad_field(offsetof(struct nkv_read_command, result), detail);
  }
  if (command->reserved3[0] != 0 || command->reserved3[1] != 0 || command->reserved3[2] != 0) {
    return nkv_bad_field(offsetof(struct nkv_read_command, reserved3), detail);
  }
  *detail = 0;
  return NKV_STATUS_OK;
}

/** Checks each field of a nkv_gather_command by itself: NKV_STATUS_OK, or
 * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */
static inline uint8_t nkv_check_gather_command(const struct nkv_gather_command *command,
                                               uint64_t *detail) {
  if (command->opcode != NKV_OPCODE_GATHER) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, opcode), detail);
  }
  if (command->flags > 0u) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, flags), detail);
  }
  if (command->tensor > NKV_TENSOR_BOTH) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, tensor), detail);
  }
  if (command->reserved[0] != 0 || command->reserved[1] != 0 || command->reserved[2] != 0) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, reserved), detail);
  }
  if (command->tokens < 1u || command->tokens > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, tokens), detail);
  }
  if (command->count < 1u || command->count > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, count), detail);
  }
  if (command->ids % 4u != 0) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, ids), detail);
  }
  if (command->page_list % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, page_list), detail);
  }
  if (command->result % NKV_BURST_BYTES != 0) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, result), detail);
  }
  if (command->reserved2[0] != 0 || command->reserved2[1] != 0 || command->reserved2[2] != 0) {
    return nkv_bad_field(offsetof(struct nkv_gather_command, reserved2), detail);
  }
  *detail = 0;
  return NKV_STATUS_OK;
}

/** Checks each field of a nkv_pages_command by itself: NKV_STATUS_OK, or
 * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */
static inline uint8_t nkv_check_pages_command(const struct nkv_pages_command *command,
                                              uint64_t *detail) {
  if (command->opcode != NKV_OPCODE_TRANSCODE && command->opcode != NKV_OPCODE_SCRUB &&
      command->opcode != NKV_OPCODE_ERASE && command->opcode != NKV_OPCODE_COPY) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, opcode), detail);
  }
  if (command->flags > 0u) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, flags), detail);
  }
  if (command->codec != NKV_CODEC_NONE && command->codec != NKV_CODEC_PLANES_LZ4 &&
      command->codec != NKV_CODEC_PLANES_ZSTD && command->codec != NKV_CODEC_INT8 &&
      command->codec != NKV_CODEC_INT4 && command->codec != NKV_CODEC_FP8) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, codec), detail);
  }
  if (command->reserved[0] != 0 || command->reserved[1] != 0 || command->reserved[2] != 0) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, reserved), detail);
  }
  if (command->count < 1u || command->count > NKV_MAX_TOKENS) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, count), detail);
  }
  if (command->source % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, source), detail);
  }
  if (command->destination % 8u != 0) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, destination), detail);
  }
  if (command->result % 4u != 0) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, result), detail);
  }
  if (command->reserved2[0] != 0 || command->reserved2[1] != 0 || command->reserved2[2] != 0) {
    return nkv_bad_field(offsetof(struct nkv_pages_command, reserved2), detail);
  }
  *detail = 0;
  return NKV_STATUS_OK;
}

#undef NKV_ASSERT_OFFSET
#undef NKV_ASSERT_BYTES
#undef NKV_STATIC_ASSERT

#endif /* NKV_ABI_H */
