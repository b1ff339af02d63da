#include "firmware/update.h"

#include <string.h>

#include "firmware/firmware.h"

enum { SLICE_LINES = 16, HEADER_BYTES = sizeof(struct nkv_firmware_image) };

void update_start(struct firmware* firmware) {
  const struct nkv_firmware_boot* boot = firmware->platform->boot;
  struct background* background = &firmware->background;
  if (!boot->has_flash) return;
  boot_record_read(firmware->platform->flash, &firmware->update.record);
  if (!boot->staged && !boot->rolled_back) return;
  background->opcode = NKV_CCI_OPCODE_ACTIVATE_FIRMWARE;
  background->status =
      boot->rolled_back ? NKV_CCI_STATUS_FIRMWARE_ROLLED_BACK : NKV_CCI_STATUS_SUCCESS;
}

static bool is_on_trial(const struct firmware* firmware) {
  const struct nkv_firmware_boot* boot = firmware->platform->boot;
  const struct nkv_boot_record* record = &firmware->update.record;
  return boot->staged && record->slot == boot->slot && record->trusted != boot->slot;
}

bool update_trust(struct firmware* firmware) {
  struct update* update = &firmware->update;
  if (!is_on_trial(firmware)) return true;
  struct nkv_boot_record record = update->record;
  record.trusted = record.slot;
  if (!boot_record_write(firmware->platform->flash, &record)) return false;
  update->record = record;
  return true;
}

unsigned update_target(const struct firmware* firmware) {
  return firmware->platform->boot->slot == 1 ? 2 : 1;
}

/* What runs on trial would otherwise overwrite what the card goes back to. */
bool update_open(struct firmware* firmware) {
  struct update* update = &firmware->update;
  if (!update_trust(firmware)) return false;
  update->is_open = true;
  update->received = 0;
  return true;
}

void update_abort(struct firmware* firmware) { firmware->update.is_open = false; }

static bool write_line(struct firmware* firmware, const uint8_t line[LINE_BYTES]) {
  const struct flash* flash = firmware->platform->flash;
  struct update* update = &firmware->update;
  const uint32_t offset = update->received;
  const uint32_t at = image_slot_at(update_target(firmware)) + offset;
  update->received += LINE_BYTES;
  if (offset % NKV_FLASH_BLOCK_BYTES == 0 && !flash->erase(flash->context, at)) return false;
  if (offset >= HEADER_BYTES) return flash->write(flash->context, at, line);
  memcpy((uint8_t*)&update->check.header + offset, line, LINE_BYTES);
  return true;
}

enum nkv_cci_status update_add(struct firmware* firmware, const uint8_t* bytes, size_t size) {
  struct update* update = &firmware->update;
  update->last_part_ns = firmware_uptime_ns(firmware);
  for (size_t at = 0; at < size; at += LINE_BYTES) {
    uint8_t line[LINE_BYTES];
    const size_t part = size - at < LINE_BYTES ? size - at : LINE_BYTES;
    memset(line, UINT8_MAX, sizeof(line));
    memcpy(line, bytes + at, part);
    if (update->received + LINE_BYTES > NKV_FLASH_SLOT_BYTES) {
      update_abort(firmware);
      return NKV_CCI_STATUS_INVALID_INPUT;
    }
    if (!write_line(firmware, line)) {
      update_abort(firmware);
      return NKV_CCI_STATUS_INTERNAL_ERROR;
    }
  }
  return NKV_CCI_STATUS_SUCCESS;
}

/* How a check goes on: BACKGROUND_STARTED, or how it ended. */
static enum nkv_cci_status check_slice(struct firmware* firmware) {
  struct image_check* check = &firmware->update.check;
  uint8_t line[LINE_BYTES];
  for (int i = 0; i < SLICE_LINES && check->left != 0; ++i) {
    if (!image_check_line(check, firmware->platform->flash, line)) {
      return NKV_CCI_STATUS_INTERNAL_ERROR;
    }
  }
  firmware->background.at = check->header.bytes - check->left;
  if (check->left != 0) return NKV_CCI_STATUS_BACKGROUND_STARTED;
  return image_check_end(check) ? NKV_CCI_STATUS_SUCCESS
                                : NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED;
}

/* The line that makes an image of it comes last. */
static enum nkv_cci_status complete_step(struct firmware* firmware) {
  const struct flash* flash = firmware->platform->flash;
  struct update* update = &firmware->update;
  const enum nkv_cci_status status = check_slice(firmware);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  for (uint32_t at = HEADER_BYTES; at > 0; at -= LINE_BYTES) {
    const uint8_t* line = (const uint8_t*)&update->check.header + at - LINE_BYTES;
    const uint32_t to = image_slot_at(update_target(firmware)) + at - LINE_BYTES;
    if (!flash->write(flash->context, to, line)) return NKV_CCI_STATUS_INTERNAL_ERROR;
  }
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status update_close(struct firmware* firmware) {
  struct update* update = &firmware->update;
  const struct nkv_firmware_image header = update->check.header;
  update_abort(firmware);
  if (!image_is_header(&header) || update->received < HEADER_BYTES + header.bytes) {
    return NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED;
  }
  image_check_start(&update->check, update_target(firmware), &header);
  return background_start(&firmware->background, NKV_CCI_OPCODE_TRANSFER_FIRMWARE, complete_step, 0,
                          header.bytes);
}

static enum nkv_cci_status stage(struct firmware* firmware, unsigned slot) {
  struct update* update = &firmware->update;
  struct nkv_boot_record record = update->record;
  record.slot = slot;
  record.trusted = firmware->platform->boot->slot; /* It answers. */
  record.tries = NKV_BOOT_TRIES;
  record.rolled_back = 0;
  if (!boot_record_write(firmware->platform->flash, &record)) return NKV_CCI_STATUS_INTERNAL_ERROR;
  update->record = record;
  return NKV_CCI_STATUS_SUCCESS;
}

static enum nkv_cci_status stage_step(struct firmware* firmware) {
  const enum nkv_cci_status status = check_slice(firmware);
  return status == NKV_CCI_STATUS_SUCCESS ? stage(firmware, firmware->update.activated) : status;
}

static enum nkv_cci_status start_step(struct firmware* firmware) {
  const enum nkv_cci_status status = stage_step(firmware);
  if (status == NKV_CCI_STATUS_SUCCESS) firmware->platform->restart(firmware->platform->context);
  return status;
}

enum nkv_cci_status update_activate(struct firmware* firmware, unsigned slot, bool at_once) {
  struct update* update = &firmware->update;
  struct nkv_firmware_image header;
  if (!update_trust(firmware)) return NKV_CCI_STATUS_INTERNAL_ERROR;
  if (!image_read_header(firmware->platform->flash, slot, &header)) {
    return NKV_CCI_STATUS_INVALID_SLOT;
  }
  update->activated = slot;
  image_check_start(&update->check, slot, &header);
  return background_start(&firmware->background, NKV_CCI_OPCODE_ACTIVATE_FIRMWARE,
                          at_once ? start_step : stage_step, 0, header.bytes);
}
