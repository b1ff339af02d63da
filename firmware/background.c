#include "firmware/background.h"

#include "firmware/firmware.h"

enum nkv_cci_status background_start(struct background* background, enum nkv_cci_opcode opcode,
                                     background_step* step, uint64_t first, uint64_t end) {
  if (background->step != NULL) return NKV_CCI_STATUS_BUSY;
  *background = (struct background){
      .step = step, .opcode = (uint16_t)opcode, .first = first, .at = first, .end = end};
  return NKV_CCI_STATUS_BACKGROUND_STARTED;
}

uint32_t background_slice(uint64_t at, uint64_t end, uint32_t most) {
  return end - at < most ? (uint32_t)(end - at) : most;
}

bool background_is(const struct background* background, enum nkv_cci_opcode opcode) {
  return background->step != NULL && background->opcode == opcode;
}

bool background_turn(struct firmware* firmware) {
  struct background* background = &firmware->background;
  if (background->step == NULL) return false;
  const enum nkv_cci_status status =
      background->is_unwanted ? NKV_CCI_STATUS_ABORTED : background->step(firmware);
  if (status != NKV_CCI_STATUS_BACKGROUND_STARTED) {
    background->step = NULL;
    background->status = (uint16_t)status;
  }
  return true;
}

/* No product of two addresses: memory may be of any size. */
unsigned background_percent(const struct background* background) {
  const uint64_t all = background->end - background->first;
  const uint64_t done = background->at - background->first;
  if (background->opcode == 0) return 0;
  if (done >= all) return 100;
  return all < 100 ? 0 : (unsigned)(done / (all / 100 + (all % 100 != 0)));
}

uint64_t background_register(const struct background* background) {
  return background->opcode | (uint64_t)background_percent(background) << 16 |
         (uint64_t)background->status << 32;
}
