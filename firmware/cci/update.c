/* Firmware update: CXL 3.1, 8.2.10.3. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum {
  SLOTS_SHOWN = 4,
  REVISION_BYTES = sizeof(((struct nkv_firmware_image*)0)->revision),
  STAGED_SHIFT = 3,
  STARTS_AT_ONCE = 1 << 0,
  OFFSET_UNIT_BYTES = 128,
  START_AT_ONCE = 0,
  START_WITH_RESET = 1,
};

static const uint64_t part_timeout_ns = 30000000000;

/* Slot 0 runs: what is built in. */
enum nkv_cci_status cci_get_firmware(struct firmware* firmware, struct cci_payload payload,
                                     struct cci_answer* answer) {
  const struct platform* platform = firmware->platform;
  const uint32_t staged = firmware->update.record.slot;
  (void)payload;
  if (!platform->boot->has_flash) return NKV_CCI_STATUS_UNSUPPORTED;
  uint8_t* out = cci_answer_with(answer, 16 + SLOTS_SHOWN * REVISION_BYTES);
  put_number(out, NKV_FLASH_SLOTS, 1);
  put_number(out + 1,
             platform->boot->slot | (staged == platform->boot->slot ? 0 : staged << STAGED_SHIFT),
             1);
  put_number(out + 2, STARTS_AT_ONCE, 1);
  for (unsigned slot = 1; slot <= NKV_FLASH_SLOTS; ++slot) {
    struct nkv_firmware_image header;
    if (!image_read_header(platform->flash, slot, &header)) continue;
    memcpy(out + 16 + (size_t)(slot - 1) * REVISION_BYTES, header.revision, REVISION_BYTES);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

/* Whether a part may follow; the host may be gone that sent those before. */
static enum nkv_cci_status expect_part(struct firmware* firmware, uint64_t offset) {
  const struct update* update = &firmware->update;
  if (!update->is_open) return NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER;
  if (firmware_uptime_ns(firmware) - update->last_part_ns > part_timeout_ns) {
    update_abort(firmware);
    return NKV_CCI_STATUS_ABORTED;
  }
  return offset == update->received ? NKV_CCI_STATUS_SUCCESS
                                    : NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER;
}

static enum nkv_cci_status expect_first(struct firmware* firmware, uint64_t offset) {
  if (firmware->update.is_open &&
      expect_part(firmware, firmware->update.received) == NKV_CCI_STATUS_SUCCESS) {
    return NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS;
  }
  if (offset != 0) return NKV_CCI_STATUS_INVALID_INPUT;
  return update_open(firmware) ? NKV_CCI_STATUS_SUCCESS : NKV_CCI_STATUS_INTERNAL_ERROR;
}

enum nkv_cci_status cci_transfer_firmware(struct firmware* firmware, struct cci_payload payload,
                                          struct cci_answer* answer) {
  const unsigned action = payload.bytes[0];
  const uint64_t offset = take_number(payload.bytes + 4, 4) * OFFSET_UNIT_BYTES;
  const bool is_first = action == NKV_CCI_TRANSFER_FULL || action == NKV_CCI_TRANSFER_INITIATE;
  const bool is_last = action == NKV_CCI_TRANSFER_FULL || action == NKV_CCI_TRANSFER_END;
  const uint8_t* bytes = payload.bytes + TRANSFER_HEADER_BYTES;
  const size_t size = payload.size - TRANSFER_HEADER_BYTES;
  (void)answer;
  if (!firmware->platform->boot->has_flash) return NKV_CCI_STATUS_UNSUPPORTED;
  if (action > NKV_CCI_TRANSFER_ABORT) return NKV_CCI_STATUS_INVALID_INPUT;
  if (action == NKV_CCI_TRANSFER_ABORT) {
    update_abort(firmware);
    return NKV_CCI_STATUS_SUCCESS;
  }
  if (firmware->background.step != NULL) return NKV_CCI_STATUS_BUSY;
  if (is_last && payload.bytes[1] != update_target(firmware)) return NKV_CCI_STATUS_INVALID_SLOT;
  if (!is_last && size % OFFSET_UNIT_BYTES != 0) return NKV_CCI_STATUS_INVALID_INPUT;
  enum nkv_cci_status status =
      is_first ? expect_first(firmware, offset) : expect_part(firmware, offset);
  if (status == NKV_CCI_STATUS_SUCCESS) status = update_add(firmware, bytes, size);
  if (status == NKV_CCI_STATUS_SUCCESS && is_last) status = update_close(firmware);
  return status;
}

enum nkv_cci_status cci_activate_firmware(struct firmware* firmware, struct cci_payload payload,
                                          struct cci_answer* answer) {
  const unsigned action = payload.bytes[0];
  const unsigned slot = payload.bytes[1];
  (void)answer;
  if (!firmware->platform->boot->has_flash) return NKV_CCI_STATUS_UNSUPPORTED;
  if (action > START_WITH_RESET) return NKV_CCI_STATUS_INVALID_INPUT;
  if (slot == 0 || slot > NKV_FLASH_SLOTS || slot == firmware->platform->boot->slot) {
    return NKV_CCI_STATUS_INVALID_SLOT;
  }
  if (firmware->update.is_open) return NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS;
  if (firmware->background.step != NULL) return NKV_CCI_STATUS_BUSY;
  return update_activate(firmware, slot, action == START_AT_ONCE);
}
