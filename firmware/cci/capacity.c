/* Dynamic capacity as the host sees it: CXL 3.1, 8.2.10.9.9. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { REGION_SHIFT = 28, REGION_BYTES = 40, ENTRY_BYTES = 24, MORE = 1 << 0 };
enum { HEADER_BYTES = 16 };

void cci_put_extent(const struct firmware* firmware, const struct capacity_run* run, uint8_t* at) {
  put_number(at, capacity_address(firmware, run->first), 8);
  put_number(at + 8, run->count * capacity_block_bytes(firmware), 8);
  memcpy(at + 16, firmware->platform->kept->capacity.tags[run->tag], CAPACITY_TAG_BYTES);
}

enum nkv_cci_status cci_get_dynamic_capacity(struct firmware* firmware, struct cci_payload payload,
                                             struct cci_answer* answer) {
  const struct capacity* capacity = &firmware->platform->kept->capacity;
  const unsigned wanted = payload.bytes[0];
  const unsigned first = payload.bytes[1];
  if (first > 0) return NKV_CCI_STATUS_INVALID_INPUT;
  const size_t regions = wanted > 0 ? 1 : 0;
  uint8_t* out = cci_answer_with(answer, 8 + regions * REGION_BYTES + 16);
  put_number(out, 1, 1);
  put_number(out + 1, regions, 1);
  out += 8;
  if (regions > 0) {
    const uint64_t bytes = capacity_blocks(firmware) * capacity_block_bytes(firmware);
    put_number(out, capacity_address(firmware, 0), 8);
    put_number(out + 8, bytes >> REGION_SHIFT, 8);
    put_number(out + 16, bytes, 8);
    put_number(out + 24, capacity_block_bytes(firmware), 8);
    out += REGION_BYTES;
  }
  put_number(out, NKV_CAPACITY_BLOCKS, 4);
  put_number(out + 4, capacity_free_extents(capacity), 4);
  put_number(out + 8, NKV_CAPACITY_TAGS, 4);
  put_number(out + 12, capacity_free_tags(capacity), 4);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_dynamic_extents(struct firmware* firmware, struct cci_payload payload,
                                            struct cci_answer* answer) {
  enum { kMost = (NKV_MAILBOX_BYTES - HEADER_BYTES) / EVENT_EXTENT_BYTES };
  const struct capacity* capacity = &firmware->platform->kept->capacity;
  const uint64_t wanted = take_number(payload.bytes, 4);
  const uint64_t first = take_number(payload.bytes + 4, 4);
  const unsigned all = capacity_runs(capacity, CAPACITY_ACCEPTED);
  if (first > all) return NKV_CCI_STATUS_INVALID_INPUT;
  size_t count = all - (size_t)first;
  if (count > wanted) count = (size_t)wanted;
  if (count > kMost) count = kMost;

  uint8_t* out = cci_answer_with(answer, HEADER_BYTES + count * EVENT_EXTENT_BYTES);
  put_number(out, count, 4);
  put_number(out + 4, all, 4);
  put_number(out + 8, capacity->generation, 4);
  struct capacity_run run = {0};
  for (size_t i = 0; i < first + count; ++i) {
    (void)capacity_next(capacity, CAPACITY_ACCEPTED, run.first + run.count, &run);
    if (i >= first) {
      cci_put_extent(firmware, &run, out + HEADER_BYTES + (i - (size_t)first) * EVENT_EXTENT_BYTES);
    }
  }
  return NKV_CCI_STATUS_SUCCESS;
}

/* Moves the blocks of a list of extents, of which none may be there twice. */
static enum nkv_cci_status move_list(const struct firmware* firmware, struct cci_payload payload,
                                     struct capacity* next, enum capacity_state from,
                                     enum capacity_state to) {
  const uint64_t count = take_number(payload.bytes, 4);
  if (count > NKV_MAILBOX_BYTES || payload.size != 8 + (size_t)count * ENTRY_BYTES) {
    return NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
  }
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* entry = payload.bytes + 8 + i * ENTRY_BYTES;
    struct capacity_run run;
    const enum nkv_cci_status status =
        capacity_take_range(firmware, take_number(entry, 8), take_number(entry + 8, 8), &run);
    if (status != NKV_CCI_STATUS_SUCCESS) return status;
    if (capacity_move(next, &run, from, CAPACITY_CHOSEN)) continue;
    for (unsigned block = run.first; block < run.first + run.count; ++block) {
      if (next->blocks[block].state == CAPACITY_CHOSEN) return NKV_CCI_STATUS_INVALID_EXTENT_LIST;
    }
    return NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS;
  }
  capacity_move_all(next, CAPACITY_CHOSEN, to);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_add_dynamic_response(struct firmware* firmware, struct cci_payload payload,
                                             struct cci_answer* answer) {
  (void)answer;
  struct capacity next = firmware->platform->kept->capacity;
  const enum nkv_cci_status status =
      move_list(firmware, payload, &next, CAPACITY_OFFERED, CAPACITY_ACCEPTED);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  /* What the host does not take, it never had: there is nothing to wipe. */
  if ((payload.bytes[4] & MORE) == 0) capacity_move_all(&next, CAPACITY_OFFERED, CAPACITY_FREE);
  capacity_commit(&firmware->platform->kept->capacity, &next);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_release_dynamic(struct firmware* firmware, struct cci_payload payload,
                                        struct cci_answer* answer) {
  (void)answer;
  struct capacity next = firmware->platform->kept->capacity;
  const enum nkv_cci_status status =
      move_list(firmware, payload, &next, CAPACITY_ACCEPTED, CAPACITY_RETURNED);
  if (status == NKV_CCI_STATUS_SUCCESS) capacity_commit(&firmware->platform->kept->capacity, &next);
  return status;
}
