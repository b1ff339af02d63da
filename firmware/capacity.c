#include "firmware/capacity.h"

#include <string.h>

#include "firmware/firmware.h"

enum { SLICE_BYTES = 1 << 20 };

static uint32_t sum_of(const struct capacity* capacity) {
  return kept_sum(capacity, offsetof(struct capacity, sum));
}

void capacity_start(struct firmware* firmware) {
  struct capacity* const capacity = &firmware->platform->kept->capacity;
  if (capacity->sum == sum_of(capacity)) {
    // The events that told the host of offers have gone with the log.
    struct capacity next = *capacity;
    capacity_move_all(&next, CAPACITY_OFFERED, CAPACITY_FREE);
    capacity_commit(capacity, &next);
    return;
  }
  const struct capacity_run all = {.first = 0, .count = capacity_blocks(firmware)};
  memset(capacity, 0, sizeof(*capacity));
  (void)capacity_move(capacity, &all, CAPACITY_FREE, CAPACITY_ACCEPTED);
  capacity->sum = sum_of(capacity);
}

static bool is_hosts(const struct capacity_block* block) {
  return block->state == CAPACITY_ACCEPTED;
}

void capacity_commit(struct capacity* capacity, struct capacity* next) {
  bool is_other = false;
  next->returned = 0;
  for (unsigned i = 0; i < NKV_CAPACITY_BLOCKS; ++i) {
    is_other |= is_hosts(&capacity->blocks[i]) != is_hosts(&next->blocks[i]);
    next->returned += next->blocks[i].state == CAPACITY_RETURNED;
  }
  next->generation += is_other;
  next->sum = sum_of(next);
  *capacity = *next;
}

uint64_t capacity_block_bytes(const struct firmware* firmware) {
  uint64_t bytes = NKV_CAPACITY_BLOCK_LEAST_BYTES;
  while (bytes * NKV_CAPACITY_BLOCKS < firmware->platform->dynamic_bytes) bytes *= 2;
  return bytes;
}

unsigned capacity_blocks(const struct firmware* firmware) {
  return (unsigned)(firmware->platform->dynamic_bytes / capacity_block_bytes(firmware));
}

uint64_t capacity_address(const struct firmware* firmware, unsigned block) {
  const struct platform* platform = firmware->platform;
  return platform->memory_bytes - platform->dynamic_bytes + block * capacity_block_bytes(firmware);
}

enum nkv_cci_status capacity_take_range(const struct firmware* firmware, uint64_t first,
                                        uint64_t bytes, struct capacity_run* run) {
  const uint64_t block_bytes = capacity_block_bytes(firmware);
  const uint64_t start = capacity_address(firmware, 0);
  const uint64_t region_bytes = capacity_blocks(firmware) * block_bytes;
  if (first < start || first - start >= region_bytes || bytes > region_bytes - (first - start)) {
    return NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS;
  }
  if (bytes == 0 || ((first - start) | bytes) % block_bytes != 0) {
    return NKV_CCI_STATUS_INVALID_EXTENT_LIST;
  }
  *run = (struct capacity_run){.first = (unsigned)((first - start) / block_bytes),
                               .count = (unsigned)(bytes / block_bytes)};
  return NKV_CCI_STATUS_SUCCESS;
}

bool capacity_next(const struct capacity* capacity, enum capacity_state state, unsigned from,
                   struct capacity_run* run) {
  const struct capacity_block* blocks = capacity->blocks;
  while (from < NKV_CAPACITY_BLOCKS && blocks[from].state != state) ++from;
  if (from == NKV_CAPACITY_BLOCKS) return false;
  unsigned end = from + 1;
  while (end < NKV_CAPACITY_BLOCKS && blocks[end].state == state &&
         blocks[end].tag == blocks[from].tag) {
    ++end;
  }
  *run = (struct capacity_run){.first = from, .count = end - from, .tag = blocks[from].tag};
  return true;
}

unsigned capacity_runs(const struct capacity* capacity, enum capacity_state state) {
  struct capacity_run run = {0};
  unsigned runs = 0;
  while (capacity_next(capacity, state, run.first + run.count, &run)) ++runs;
  return runs;
}

bool capacity_move(struct capacity* capacity, const struct capacity_run* run,
                   enum capacity_state from, enum capacity_state to) {
  struct capacity_block* blocks = capacity->blocks + run->first;
  for (unsigned i = 0; i < run->count; ++i) {
    if (blocks[i].state != from) return false;
  }
  for (unsigned i = 0; i < run->count; ++i) blocks[i].state = (uint8_t)to;
  return true;
}

void capacity_move_all(struct capacity* capacity, enum capacity_state from,
                       enum capacity_state to) {
  for (unsigned i = 0; i < NKV_CAPACITY_BLOCKS; ++i) {
    if (capacity->blocks[i].state == from) capacity->blocks[i].state = (uint8_t)to;
  }
}

uint32_t capacity_tags_in_use(const struct capacity* capacity) {
  uint32_t tags = 1;
  for (unsigned i = 0; i < NKV_CAPACITY_BLOCKS; ++i) {
    const struct capacity_block* block = &capacity->blocks[i];
    if (block->state == CAPACITY_OFFERED || is_hosts(block)) tags |= UINT32_C(1) << block->tag;
  }
  return tags;
}

unsigned capacity_free_extents(const struct capacity* capacity) {
  return NKV_CAPACITY_BLOCKS - capacity_runs(capacity, CAPACITY_ACCEPTED);
}

unsigned capacity_free_tags(const struct capacity* capacity) {
  const uint32_t used = capacity_tags_in_use(capacity);
  unsigned found = 0;
  for (unsigned tag = 0; tag < NKV_CAPACITY_TAGS; ++tag) found += (used >> tag & 1) == 0;
  return found;
}

unsigned capacity_find_tag(const struct capacity* capacity, const uint8_t* tag) {
  const uint32_t used = capacity_tags_in_use(capacity);
  unsigned at = 0;
  while (at < NKV_CAPACITY_TAGS &&
         ((used >> at & 1) == 0 || memcmp(capacity->tags[at], tag, CAPACITY_TAG_BYTES) != 0)) {
    ++at;
  }
  return at;
}

static void end_poison(struct poison* poison, uint64_t first, uint64_t end) {
  for (;;) {
    const unsigned at = poison_below(poison, first);
    if (at == poison->count || poison_address(poison->lines[at]) >= end) return;
    poison_remove(poison, poison_address(poison->lines[at]));
  }
}

bool capacity_turn(struct firmware* firmware) {
  const struct platform* platform = firmware->platform;
  if (platform->kept->capacity.returned == 0) return false;
  struct capacity next = platform->kept->capacity;
  struct capacity_run run = {0};
  (void)capacity_next(&next, CAPACITY_RETURNED, 0, &run);
  run.count = 1;
  const uint64_t first = capacity_address(firmware, run.first);
  const uint64_t end = capacity_address(firmware, run.first + 1);
  const uint64_t at = first + firmware->capacity_wiped_bytes;
  const uint32_t bytes = background_slice(at, end, SLICE_BYTES);
  const bool is_wiped = platform->wipe(platform->context, at, bytes);
  if (is_wiped && at + bytes < end) {
    firmware->capacity_wiped_bytes += bytes;
    return true;
  }
  firmware->capacity_wiped_bytes = 0;
  if (is_wiped) {
    end_poison(&firmware->poison, first, end);
  } else {
    firmware_note_poison(firmware, at, EVENT_BY_MANAGEMENT);
  }
  (void)capacity_move(&next, &run, CAPACITY_RETURNED, is_wiped ? CAPACITY_FREE : CAPACITY_BROKEN);
  capacity_commit(&platform->kept->capacity, &next);
  return true;
}
