/* Sanitize: CXL 3.1, 8.2.10.9.5.1. All that the memory holds is gone. */
#include "firmware/cci/commands.h"

enum { SLICE_BYTES = 4 << 20 };

static enum nkv_cci_status sanitize_step(struct firmware* firmware) {
  const struct platform* platform = firmware->platform;
  struct background* background = &firmware->background;
  const uint32_t bytes = background_slice(background->at, background->end, SLICE_BYTES);
  if (!platform->wipe(platform->context, background->at, bytes)) {
    return NKV_CCI_STATUS_INTERNAL_ERROR;
  }
  background->at += bytes;
  if (background->at < background->end) return NKV_CCI_STATUS_BACKGROUND_STARTED;
  poison_clear(&firmware->poison);
  firmware->scan = (struct scan){0};
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_sanitize(struct firmware* firmware, struct cci_payload payload,
                                 struct cci_answer* answer) {
  (void)payload;
  (void)answer;
  return background_start(&firmware->background, NKV_CCI_OPCODE_SANITIZE, sanitize_step, 0,
                          firmware->platform->memory_bytes);
}
