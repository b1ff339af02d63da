/* What the component is, and its operation in the background: CXL 3.1, 8.2.10.1. */
#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { MESSAGE_SHIFT = 11, TYPE_3_DEVICE = 3, RUNS = 1 << 0 };

_Static_assert(1 << MESSAGE_SHIFT == NKV_MAILBOX_BYTES, "the mailbox's room");

/* PCI's numbers are those of whoever builds a card. */
enum nkv_cci_status cci_identify(struct firmware* firmware, struct cci_payload payload,
                                 struct cci_answer* answer) {
  (void)payload;
  uint8_t* out = cci_answer_with(answer, 18);
  put_number(out + 8, firmware->platform->serial, 8);
  put_number(out + 16, MESSAGE_SHIFT, 1);
  put_number(out + 17, TYPE_3_DEVICE, 1);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_background(struct firmware* firmware, struct cci_payload payload,
                                       struct cci_answer* answer) {
  (void)payload;
  const struct background* background = &firmware->background;
  uint8_t* out = cci_answer_with(answer, 8);
  put_number(out, (background->step != NULL ? RUNS : 0U) | background_percent(background) << 1, 1);
  put_number(out + 2, background->opcode, 2);
  put_number(out + 4, background->status, 2);
  return NKV_CCI_STATUS_SUCCESS;
}

/* A memory that is half wiped is of no use: only a scan can be given up. */
enum nkv_cci_status cci_abort_background(struct firmware* firmware, struct cci_payload payload,
                                         struct cci_answer* answer) {
  (void)payload;
  (void)answer;
  struct background* background = &firmware->background;
  if (background->step == NULL) return NKV_CCI_STATUS_SUCCESS;
  if (!background_is(background, NKV_CCI_OPCODE_SCAN_MEDIA)) {
    return NKV_CCI_STATUS_REQUEST_ABORT_NOT_SUPPORTED;
  }
  background->is_unwanted = true;
  return NKV_CCI_STATUS_SUCCESS;
}
