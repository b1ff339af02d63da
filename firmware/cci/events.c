/* Event records: CXL 3.1, 8.2.10.2. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { HEADER_BYTES = 32, RECORD_BYTES = 128, OVERFLOWED = 1 << 0, MORE = 1 << 1, CLEAR_ALL = 1 };

static const uint8_t uuids[EVENT_KINDS][16] = {
    /* fbcd0a77-c260-417f-85a9-088b1621eba6 */
    [EVENT_OF_MEDIA] = {0xfb, 0xcd, 0x0a, 0x77, 0xc2, 0x60, 0x41, 0x7f, 0x85, 0xa9, 0x08, 0x8b,
                        0x16, 0x21, 0xeb, 0xa6},
    /* fe927475-dd59-4339-a586-79bab113b774 */
    [EVENT_OF_MODULE] = {0xfe, 0x92, 0x74, 0x75, 0xdd, 0x59, 0x43, 0x39, 0xa5, 0x86, 0x79, 0xba,
                         0xb1, 0x13, 0xb7, 0x74},
    /* ca95afa7-f183-4018-8c2f-95268e101a2a */
    [EVENT_OF_CAPACITY] = {0xca, 0x95, 0xaf, 0xa7, 0xf1, 0x83, 0x40, 0x18, 0x8c, 0x2f, 0x95, 0x26,
                           0x8e, 0x10, 0x1a, 0x2a},
};

/* Table 8-50; what is still free is that of now. */
static void put_capacity(const struct firmware* firmware, uint8_t* at, const struct event* event) {
  enum { kBothCounts = 3, kMore = 1 };
  const struct capacity* capacity = &firmware->platform->kept->capacity;
  put_number(at, event->type, 1);
  put_number(at + 1, kBothCounts, 1);
  put_number(at + 5, event->has_more ? kMore : 0, 1);
  memcpy(at + 8, event->extent, sizeof(event->extent));
  put_number(at + 72, capacity_free_extents(capacity), 4);
  put_number(at + 76, capacity_free_tags(capacity), 4);
}

/* Tables 8-42, 8-45 and 8-49. Health is that of now, but for the temperature. Events of capacity
   are informational. */
static void put_record(const struct firmware* firmware, uint8_t* at, const struct event* event,
                       enum event_log_number log) {
  memcpy(at, uuids[event->kind], sizeof(uuids[event->kind]));
  put_number(at + 16, RECORD_BYTES, 1);
  put_number(at + 17, log == EVENT_LOG_CAPACITY ? EVENT_LOG_INFORMATIONAL : log, 3);
  put_number(at + 20, event->handle, 2);
  put_number(at + 24, event->time_ns, 8);
  switch ((enum event_kind)event->kind) {
    case EVENT_OF_MODULE:
      put_number(at + 48, event->type, 1);
      health_put(firmware, event->celsius, at + 49);
      return;
    case EVENT_OF_CAPACITY:
      put_capacity(firmware, at + 48, event);
      return;
    default:
      put_number(at + 48, event->address | 1, 8); /* Bit 0: volatile. */
      put_number(at + 56, event->descriptor, 1);
      put_number(at + 58, event->transaction, 1);
  }
}

enum nkv_cci_status cci_get_event_records(struct firmware* firmware, struct cci_payload payload,
                                          struct cci_answer* answer) {
  enum { kMost = (NKV_MAILBOX_BYTES - HEADER_BYTES) / RECORD_BYTES };
  if (payload.bytes[0] >= EVENT_LOGS) return NKV_CCI_STATUS_INVALID_INPUT;
  const enum event_log_number number = (enum event_log_number)payload.bytes[0];
  const struct event_log* log = &firmware->events.logs[number];
  const unsigned count = log->count < kMost ? log->count : kMost;

  uint8_t* out = cci_answer_with(answer, HEADER_BYTES + (size_t)count * RECORD_BYTES);
  put_number(out, (log->lost > 0 ? OVERFLOWED : 0U) | (log->count > count ? MORE : 0U), 1);
  if (log->lost > 0) {
    put_number(out + 2, log->lost, 2);
    put_number(out + 4, log->first_lost_ns, 8);
    put_number(out + 12, log->last_lost_ns, 8);
  }
  put_number(out + 20, count, 2);
  for (unsigned i = 0; i < count; ++i) {
    put_record(firmware, out + HEADER_BYTES + (size_t)i * RECORD_BYTES, event_log_at(log, i),
               number);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

/* Nothing is forgotten unless all handles are those of the oldest events, in their order: an event
   that came since the host read is never lost. */
enum nkv_cci_status cci_clear_event_records(struct firmware* firmware, struct cci_payload payload,
                                            struct cci_answer* answer) {
  (void)answer;
  const unsigned count = payload.bytes[2];
  if (payload.bytes[0] >= EVENT_LOGS) return NKV_CCI_STATUS_INVALID_INPUT;
  struct event_log* log = &firmware->events.logs[payload.bytes[0]];
  if (payload.bytes[1] == CLEAR_ALL) {
    if (count != 0) return NKV_CCI_STATUS_INVALID_INPUT;
    event_log_drop(log, log->count);
    return NKV_CCI_STATUS_SUCCESS;
  }
  if (payload.bytes[1] != 0 || count == 0) return NKV_CCI_STATUS_INVALID_INPUT;
  if (payload.size != 6 + (size_t)count * 2) return NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
  if (count > log->count) return NKV_CCI_STATUS_INVALID_HANDLE;
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t handle = take_number(payload.bytes + 6 + (size_t)i * 2, 2);
    if (handle != event_log_at(log, i)->handle) return NKV_CCI_STATUS_INVALID_HANDLE;
  }
  event_log_drop(log, count);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_event_interrupts(struct firmware* firmware, struct cci_payload payload,
                                             struct cci_answer* answer) {
  (void)payload;
  uint8_t* out = cci_answer_with(answer, EVENT_INTERRUPT_BYTES);
  for (unsigned i = 0; i < EVENT_LOGS; ++i) {
    const struct event_log* log = &firmware->events.logs[i];
    put_number(out + i, log->interrupt_mode | (unsigned)log->interrupt_message << 4, 1);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

/* The host chooses whether; which message it is, is the card's to say: table 8-58. A host that
   knows nothing of dynamic capacity sends a byte less. */
enum nkv_cci_status cci_set_event_interrupts(struct firmware* firmware, struct cci_payload payload,
                                             struct cci_answer* answer) {
  (void)answer;
  for (size_t i = 0; i < payload.size; ++i) {
    if ((payload.bytes[i] & 3) > EVENT_BY_MESSAGE) return NKV_CCI_STATUS_INVALID_INPUT;
  }
  for (size_t i = 0; i < payload.size; ++i) {
    firmware->events.logs[i].interrupt_mode = payload.bytes[i] & 3;
  }
  return NKV_CCI_STATUS_SUCCESS;
}
