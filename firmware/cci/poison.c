/* Poison: CXL 3.1, 8.2.10.9.4. */
#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum {
  HEADER_BYTES = 32,
  RECORD_BYTES = 16,
  MORE = 1 << 0,
  OVERFLOWED = 1 << 1,
};

static enum nkv_cci_status check_line(const struct firmware* firmware, uint64_t address) {
  if (address % LINE_BYTES != 0) return NKV_CCI_STATUS_INVALID_INPUT;
  if (address >= firmware->platform->memory_bytes) return NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS;
  return NKV_CCI_STATUS_SUCCESS;
}

/* Lines that follow each other and have one source are one record. */
static unsigned run_lines(const struct poison* poison, unsigned at, uint64_t end) {
  const uint64_t* first = &poison->lines[at];
  unsigned lines = 1;
  for (; at + lines < poison->count; ++lines) {
    const uint64_t follows = *first + (uint64_t)lines * LINE_BYTES;
    if (first[lines] != follows || follows >= end) break;
  }
  return lines;
}

/* A host repeats the same command for as long as there is more: table 8-136. */
enum nkv_cci_status cci_get_poison(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  enum { kMost = (NKV_MAILBOX_BYTES - HEADER_BYTES) / RECORD_BYTES };
  struct poison* poison = &firmware->poison;
  uint64_t first, bytes;
  const enum nkv_cci_status status = cci_take_range(firmware, payload, &first, &bytes);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  const uint64_t end = first + bytes;
  const bool goes_on =
      poison->cursor != 0 && poison->cursor_first == first && poison->cursor_end == end;

  uint8_t* out = cci_answer_with(answer, HEADER_BYTES);
  unsigned records = 0;
  unsigned at = poison_below(poison, goes_on ? poison->cursor : first);
  while (records < kMost && at < poison->count && poison->lines[at] < end) {
    const unsigned run = run_lines(poison, at, end);
    uint8_t* record = out + HEADER_BYTES + (size_t)records * RECORD_BYTES;
    put_number(record, poison->lines[at], 8);
    put_number(record + 8, run, 8);
    at += run;
    ++records;
  }
  const bool more = at < poison->count && poison->lines[at] < end;
  poison->cursor = more ? poison_address(poison->lines[at]) : 0;
  poison->cursor_first = first;
  poison->cursor_end = end;
  put_number(out, (more ? MORE : 0U) | (poison->lost ? OVERFLOWED : 0U), 1);
  if (poison->lost) put_number(out + 2, poison->lost_ns, 8);
  put_number(out + 10, records, 2);
  answer->size = HEADER_BYTES + (size_t)records * RECORD_BYTES;
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_inject_poison(struct firmware* firmware, struct cci_payload payload,
                                      struct cci_answer* answer) {
  (void)answer;
  const struct platform* platform = firmware->platform;
  struct poison* poison = &firmware->poison;
  const uint64_t address = take_number(payload.bytes, 8);
  const enum nkv_cci_status status = check_line(firmware, address);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  if (poison_has(poison, address)) return NKV_CCI_STATUS_SUCCESS;
  if (poison->injected == NKV_INJECTED_POISON || poison->count == NKV_POISON_RECORDS) {
    return NKV_CCI_STATUS_INJECT_POISON_LIMIT;
  }
  if (!platform->poison_line(platform->context, address)) return NKV_CCI_STATUS_INTERNAL_ERROR;
  poison_add(poison, address, POISON_INJECTED, clock_now_ns(&firmware->clock));
  events_add(&firmware->events, EVENT_LOG_INFORMATIONAL,
             &(struct event){.address = address,
                             .descriptor = EVENT_UNCORRECTABLE,
                             .transaction = EVENT_BY_INJECTION});
  return NKV_CCI_STATUS_SUCCESS;
}

/* A line that no poison is known of is written too: the list may have been too short for it. */
enum nkv_cci_status cci_clear_poison(struct firmware* firmware, struct cci_payload payload,
                                     struct cci_answer* answer) {
  (void)answer;
  const struct platform* platform = firmware->platform;
  const uint64_t address = take_number(payload.bytes, 8);
  const enum nkv_cci_status status = check_line(firmware, address);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  if (!platform->write_line(platform->context, address, payload.bytes + 8)) {
    return NKV_CCI_STATUS_INTERNAL_ERROR;
  }
  poison_remove(&firmware->poison, address);
  return NKV_CCI_STATUS_SUCCESS;
}
