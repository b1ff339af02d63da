/*
 * Dynamic capacity: memory that a fabric manager lends to the host, and takes back:
 * CXL 3.1, 9.13.3. One region at the end of the memory, in blocks. A block that comes back is wiped
 * before it is lent again: nobody sees what another wrote.
 */
#ifndef NEARKV_FIRMWARE_CAPACITY_H
#define NEARKV_FIRMWARE_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "nkv_card.h"

struct firmware;

enum capacity_state {
  CAPACITY_FREE,
  CAPACITY_OFFERED,  /**< The host has not answered yet. */
  CAPACITY_ACCEPTED, /**< The host's. */
  CAPACITY_RETURNED, /**< To be wiped. */
  CAPACITY_BROKEN,   /**< Could not be wiped; not lent again. */
  CAPACITY_CHOSEN,   /**< Only while a command makes up its mind. */
};

enum { CAPACITY_TAG_BYTES = 16 };

struct capacity_block {
  uint8_t state; /**< A `capacity_state`. */
  uint8_t tag;   /**< Of `tags`; of no meaning while the block is nobody's. */
};

/** Who has what. Lies where a restart of the firmware leaves it. */
struct capacity {
  uint32_t generation; /**< Counts changes of what the host has. */
  uint32_t returned;   /**< Blocks that are to be wiped. */
  struct capacity_block blocks[NKV_CAPACITY_BLOCKS];
  uint8_t tags[NKV_CAPACITY_TAGS][CAPACITY_TAG_BYTES]; /**< The first is zero, and stays. */
  uint32_t sum;                                        /**< Of all before. */
};

/** Neighbouring blocks of one state and tag: an extent. */
struct capacity_run {
  unsigned first, count;
  uint8_t tag;
};

/**
 * Takes over what was kept; all is free where the memory is zero. What is damaged counts as the
 * host's: it may be.
 */
void capacity_start(struct firmware* firmware);

/** Writes `next` down, as one whose generation is new if the host has something else than before.
 */
void capacity_commit(struct capacity* capacity, struct capacity* next);

/** Bytes of a block; the power of two by which the region is covered. */
uint64_t capacity_block_bytes(const struct firmware* firmware);

/** Blocks of the region; 0: there is none. */
unsigned capacity_blocks(const struct firmware* firmware);

/** Where in device memory a block begins; the region does at block 0. */
uint64_t capacity_address(const struct firmware* firmware, unsigned block);

/** The blocks of a range: INVALID_EXTENT_LIST, or INVALID_PHYSICAL_ADDRESS if it has others. */
enum nkv_cci_status capacity_take_range(const struct firmware* firmware, uint64_t first,
                                        uint64_t bytes, struct capacity_run* run);

/** The first run of a state from block `from` on; false if there is none. */
bool capacity_next(const struct capacity* capacity, enum capacity_state state, unsigned from,
                   struct capacity_run* run);

/** Runs of a state. */
unsigned capacity_runs(const struct capacity* capacity, enum capacity_state state);

/** Blocks of `run` get another state, if all of them had `from`; else nothing changes, and false.
 */
bool capacity_move(struct capacity* capacity, const struct capacity_run* run,
                   enum capacity_state from, enum capacity_state to);

/** All blocks of a state get another. */
void capacity_move_all(struct capacity* capacity, enum capacity_state from, enum capacity_state to);

/** Tags of blocks that are offered or accepted, a bit each; that of zeros among them. */
uint32_t capacity_tags_in_use(const struct capacity* capacity);

/** Extents that the host may still be given: blocks may all lie apart. */
unsigned capacity_free_extents(const struct capacity* capacity);

/** Tags that may still be given. */
unsigned capacity_free_tags(const struct capacity* capacity);

/** The number of a tag that is known; NKV_CAPACITY_TAGS if it is not. */
unsigned capacity_find_tag(const struct capacity* capacity, const uint8_t* tag);

/** Wipes a slice of what came back; false if there is none. */
bool capacity_turn(struct firmware* firmware);

#endif
