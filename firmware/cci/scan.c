/* Looking for poison: CXL 3.1, 8.2.10.9.4.4 to 8.2.10.9.4.6. */
#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum {
  HEADER_BYTES = 32,
  RECORD_BYTES = 16,
  SILENT = 1 << 0,
  MORE = 1 << 0,
  STOPPED = 1 << 1,
  MEBIBYTES_PER_MS = 8, /* A tenth of what a memory channel moves. */
};

/* Of what is not empty. */
static enum nkv_cci_status take_range(const struct firmware* firmware, struct cci_payload payload,
                                      uint64_t* first, uint64_t* bytes) {
  if (take_number(payload.bytes + 8, 8) == 0) return NKV_CCI_STATUS_INVALID_INPUT;
  return cci_take_range(firmware, payload, first, bytes);
}

enum nkv_cci_status cci_get_scan_capabilities(struct firmware* firmware, struct cci_payload payload,
                                              struct cci_answer* answer) {
  uint64_t first, bytes;
  const enum nkv_cci_status status = take_range(firmware, payload, &first, &bytes);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  const uint64_t time_ms = (bytes >> 20) / MEBIBYTES_PER_MS + 1;
  put_number(cci_answer_with(answer, 4), time_ms < UINT32_MAX ? time_ms : UINT32_MAX, 4);
  return NKV_CCI_STATUS_SUCCESS;
}

static enum nkv_cci_status scan_step(struct firmware* firmware) {
  const struct platform* platform = firmware->platform;
  struct background* background = &firmware->background;
  struct scan* scan = &firmware->scan;
  const uint32_t bytes = background_slice(background->at, background->end, SCAN_SLICE_BYTES);
  uint64_t at = background->at;
  if (!platform->check_lines(platform->context, &at, bytes)) return NKV_CCI_STATUS_INTERNAL_ERROR;
  if (at < background->at + bytes) {
    if (scan->count == NKV_SCAN_RECORDS) {
      scan->restart = at;
      scan->end = background->end;
      scan->is_done = true;
      return NKV_CCI_STATUS_SUCCESS;
    }
    if (scan->is_silent) {
      poison_add(&firmware->poison, at, POISON_INTERNAL, clock_now_ns(&firmware->clock));
    } else {
      firmware_note_poison(firmware, at, EVENT_BY_SCAN);
    }
    scan->lines[scan->count++] = at | POISON_INTERNAL;
    at += LINE_BYTES;
  }
  background->at = at;
  scan->is_done = at >= background->end;
  return scan->is_done ? NKV_CCI_STATUS_SUCCESS : NKV_CCI_STATUS_BACKGROUND_STARTED;
}

enum nkv_cci_status cci_scan_media(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)answer;
  uint64_t first, bytes;
  enum nkv_cci_status status = take_range(firmware, payload, &first, &bytes);
  if (status == NKV_CCI_STATUS_SUCCESS && (payload.bytes[16] & ~SILENT) != 0) {
    status = NKV_CCI_STATUS_INVALID_INPUT;
  }
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  status = background_start(&firmware->background, NKV_CCI_OPCODE_SCAN_MEDIA, scan_step, first,
                            first + bytes);
  if (status == NKV_CCI_STATUS_BACKGROUND_STARTED) {
    firmware->scan = (struct scan){.is_silent = (payload.bytes[16] & SILENT) != 0};
  }
  return status;
}

/* A host repeats it for as long as there is more. */
enum nkv_cci_status cci_get_scan_results(struct firmware* firmware, struct cci_payload payload,
                                         struct cci_answer* answer) {
  enum { kMost = (NKV_MAILBOX_BYTES - HEADER_BYTES) / RECORD_BYTES };
  (void)payload;
  struct scan* scan = &firmware->scan;
  if (!scan->is_done) return NKV_CCI_STATUS_UNSUPPORTED;
  const unsigned left = scan->count - scan->told;
  const unsigned records = left < kMost ? left : kMost;

  uint8_t* out = cci_answer_with(answer, HEADER_BYTES + (size_t)records * RECORD_BYTES);
  put_number(out, scan->restart, 8);
  put_number(out + 8, (scan->end - scan->restart) / LINE_BYTES, 8);
  put_number(out + 16, (left > records ? MORE : 0U) | (scan->end != 0 ? STOPPED : 0U), 1);
  put_number(out + 18, records, 2);
  for (unsigned i = 0; i < records; ++i) {
    uint8_t* record = out + HEADER_BYTES + (size_t)i * RECORD_BYTES;
    put_number(record, scan->lines[scan->told + i], 8);
    put_number(record + 8, 1, 4);
  }
  scan->told = left > records ? scan->told + records : 0;
  return NKV_CCI_STATUS_SUCCESS;
}
