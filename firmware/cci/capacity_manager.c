/*
 * Dynamic capacity as a fabric manager sees it: CXL 3.1, 7.6.7.6. The card has one mailbox: its
 * host is the one that capacity is for, and may be its own manager.
 */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { POLICY = 0xF, FORCED = 1 << 4, SANITIZED = 1 << 5 };

/** How an offer chooses its blocks. */
enum { FREE, CONTIGUOUS, PRESCRIPTIVE };
/** How a request does. */
enum { BY_TAG, BY_EXTENT };

struct request {
  unsigned flags;
  unsigned blocks; /**< To choose, unless they are listed. */
  const uint8_t* tag;
  size_t extents;
  const uint8_t* extent;
};

static enum nkv_cci_status take_request(const struct firmware* firmware, struct cci_payload payload,
                                        struct request* request) {
  const uint64_t bytes = take_number(payload.bytes + 4, 8);
  const uint64_t extents = take_number(payload.bytes + 28, 4);
  const uint64_t block_bytes = capacity_block_bytes(firmware);
  if (extents > NKV_MAILBOX_BYTES ||
      payload.size != CAPACITY_REQUEST_BYTES + (size_t)extents * EVENT_EXTENT_BYTES) {
    return NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
  }
  const bool is_ours = take_number(payload.bytes, 2) == 0 && payload.bytes[3] == 0;
  if (!is_ours || bytes % block_bytes != 0) return NKV_CCI_STATUS_INVALID_INPUT;
  if (bytes / block_bytes > capacity_blocks(firmware)) return NKV_CCI_STATUS_RESOURCES_EXHAUSTED;
  *request = (struct request){.flags = payload.bytes[2],
                              .blocks = (unsigned)(bytes / block_bytes),
                              .tag = payload.bytes + 12,
                              .extents = (size_t)extents,
                              .extent = payload.bytes + CAPACITY_REQUEST_BYTES};
  return NKV_CCI_STATUS_SUCCESS;
}

static enum nkv_cci_status choose_listed(const struct firmware* firmware,
                                         const struct request* request, struct capacity* next,
                                         enum capacity_state from) {
  for (size_t i = 0; i < request->extents; ++i) {
    const uint8_t* extent = request->extent + i * EVENT_EXTENT_BYTES;
    struct capacity_run run;
    const enum nkv_cci_status status =
        capacity_take_range(firmware, take_number(extent, 8), take_number(extent + 8, 8), &run);
    if (status != NKV_CCI_STATUS_SUCCESS) return status;
    if (!capacity_move(next, &run, from, CAPACITY_CHOSEN)) {
      return NKV_CCI_STATUS_INVALID_EXTENT_LIST;
    }
  }
  return request->extents > 0 ? NKV_CCI_STATUS_SUCCESS : NKV_CCI_STATUS_INVALID_INPUT;
}

/* The first blocks of a state, and of a tag unless it is NKV_CAPACITY_TAGS. */
static enum nkv_cci_status choose_first(const struct firmware* firmware,
                                        const struct request* request, struct capacity* next,
                                        enum capacity_state from, unsigned tag) {
  unsigned wanted = request->blocks;
  if (wanted == 0 || request->extents > 0) return NKV_CCI_STATUS_INVALID_INPUT;
  for (unsigned i = 0; i < capacity_blocks(firmware) && wanted > 0; ++i) {
    struct capacity_block* block = &next->blocks[i];
    if (block->state != from || (tag != NKV_CAPACITY_TAGS && block->tag != tag)) continue;
    block->state = CAPACITY_CHOSEN;
    --wanted;
  }
  return wanted == 0 ? NKV_CCI_STATUS_SUCCESS : NKV_CCI_STATUS_RESOURCES_EXHAUSTED;
}

static enum nkv_cci_status choose_contiguous(const struct firmware* firmware,
                                             const struct request* request, struct capacity* next) {
  unsigned free = 0;
  if (request->blocks == 0 || request->extents > 0) return NKV_CCI_STATUS_INVALID_INPUT;
  for (unsigned i = 0; i < capacity_blocks(firmware); ++i) {
    free = next->blocks[i].state == CAPACITY_FREE ? free + 1 : 0;
    if (free < request->blocks) continue;
    const struct capacity_run run = {.first = i + 1 - free, .count = free};
    (void)capacity_move(next, &run, CAPACITY_FREE, CAPACITY_CHOSEN);
    return NKV_CCI_STATUS_SUCCESS;
  }
  return NKV_CCI_STATUS_RESOURCES_EXHAUSTED;
}

/* The chosen blocks get the tag, which takes a place if it is new. */
static enum nkv_cci_status tag_chosen(const struct request* request, struct capacity* next) {
  const uint32_t used = capacity_tags_in_use(next);
  unsigned tag = capacity_find_tag(next, request->tag);
  if (tag == NKV_CAPACITY_TAGS) {
    for (tag = 0; tag < NKV_CAPACITY_TAGS && (used >> tag & 1) != 0;) ++tag;
    if (tag == NKV_CAPACITY_TAGS) return NKV_CCI_STATUS_RESOURCES_EXHAUSTED;
    memcpy(next->tags[tag], request->tag, CAPACITY_TAG_BYTES);
  }
  for (unsigned i = 0; i < NKV_CAPACITY_BLOCKS; ++i) {
    if (next->blocks[i].state == CAPACITY_CHOSEN) next->blocks[i].tag = (uint8_t)tag;
  }
  return NKV_CCI_STATUS_SUCCESS;
}

/* Tells the host of each run that was chosen, then moves them; nothing is done without room for
   all events: half an offer could not be answered. */
static enum nkv_cci_status tell(struct firmware* firmware, struct capacity* next,
                                enum event_capacity_type type, enum capacity_state to) {
  const struct capacity chosen = *next;
  struct capacity* const capacity = &firmware->platform->kept->capacity;
  unsigned runs = capacity_runs(next, CAPACITY_CHOSEN);
  if (runs > events_room(&firmware->events, EVENT_LOG_CAPACITY)) {
    return NKV_CCI_STATUS_RESOURCES_EXHAUSTED;
  }
  capacity_move_all(next, CAPACITY_CHOSEN, to);
  capacity_commit(capacity, next);
  struct capacity_run run = {0};
  while (capacity_next(&chosen, CAPACITY_CHOSEN, run.first + run.count, &run)) {
    struct event event = {.kind = EVENT_OF_CAPACITY, .type = (uint8_t)type, .has_more = --runs > 0};
    cci_put_extent(firmware, &run, event.extent);
    events_add(&firmware->events, EVENT_LOG_CAPACITY, &event);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_initiate_dynamic_add(struct firmware* firmware, struct cci_payload payload,
                                             struct cci_answer* answer) {
  (void)answer;
  struct capacity next = firmware->platform->kept->capacity;
  struct request request;
  enum nkv_cci_status status = take_request(firmware, payload, &request);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  if (capacity_runs(&next, CAPACITY_OFFERED) > 0) return NKV_CCI_STATUS_RETRY_REQUIRED;
  switch (request.flags) {
    case FREE:
      status = choose_first(firmware, &request, &next, CAPACITY_FREE, NKV_CAPACITY_TAGS);
      break;
    case CONTIGUOUS:
      status = choose_contiguous(firmware, &request, &next);
      break;
    case PRESCRIPTIVE:
      status = choose_listed(firmware, &request, &next, CAPACITY_FREE);
      break;
    default:
      status = NKV_CCI_STATUS_INVALID_INPUT;
  }
  if (status == NKV_CCI_STATUS_SUCCESS) status = tag_chosen(&request, &next);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  return tell(firmware, &next, EVENT_CAPACITY_ADDED, CAPACITY_OFFERED);
}

/* What comes back is wiped in any case, whether SANITIZED says so or not. */
enum nkv_cci_status cci_initiate_dynamic_release(struct firmware* firmware,
                                                 struct cci_payload payload,
                                                 struct cci_answer* answer) {
  (void)answer;
  struct capacity next = firmware->platform->kept->capacity;
  struct request request;
  enum nkv_cci_status status = take_request(firmware, payload, &request);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  const unsigned tag = capacity_find_tag(&next, request.tag);
  if ((request.flags & ~(unsigned)(POLICY | FORCED | SANITIZED)) != 0) {
    return NKV_CCI_STATUS_INVALID_INPUT;
  }
  if ((request.flags & POLICY) == BY_EXTENT) {
    status = choose_listed(firmware, &request, &next, CAPACITY_ACCEPTED);
  } else if ((request.flags & POLICY) == BY_TAG && tag != NKV_CAPACITY_TAGS) {
    status = choose_first(firmware, &request, &next, CAPACITY_ACCEPTED, tag);
  } else {
    status = NKV_CCI_STATUS_INVALID_INPUT;
  }
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  return (request.flags & FORCED) != 0
             ? tell(firmware, &next, EVENT_CAPACITY_TAKEN, CAPACITY_RETURNED)
             : tell(firmware, &next, EVENT_CAPACITY_WANTED, CAPACITY_ACCEPTED);
}
