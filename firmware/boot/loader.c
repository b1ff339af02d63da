#include "firmware/boot/loader.h"

#include <string.h>

#include "firmware/boot/record.h"

static bool load_slot(const struct flash* flash, unsigned slot, uint8_t* memory) {
  static struct image_check check;
  struct nkv_firmware_image header;
  uint8_t line[LINE_BYTES];
  if (!image_read_header(flash, slot, &header)) return false;
  image_check_start(&check, slot, &header);
  for (uint32_t at = 0; image_check_line(&check, flash, line); at += LINE_BYTES) {
    memcpy(memory + at, line, LINE_BYTES);
  }
  return image_check_end(&check);
}

static bool start_staged(const struct flash* flash, struct nkv_boot_record* record,
                         uint8_t* memory) {
  if (record->tries == 0) return false;
  --record->tries;
  return boot_record_write(flash, record) && load_slot(flash, record->slot, memory);
}

void loader_run(const struct flash* flash, struct loader_image built_in, uint8_t* memory,
                struct nkv_firmware_boot* boot) {
  struct nkv_boot_record record;
  uint8_t line[LINE_BYTES];
  memset(boot, 0, sizeof(*boot));
  boot->has_flash = flash->read(flash->context, 0, line);
  boot_record_read(flash, &record);

  if (record.slot != record.trusted) {
    if (start_staged(flash, &record, memory)) {
      boot->slot = record.slot;
      boot->staged = 1;
      return;
    }
    record.slot = record.trusted;
    record.rolled_back = 1;
    (void)boot_record_write(flash, &record); /* Without it, the next start finds the same. */
  }
  boot->rolled_back = record.rolled_back;
  if (record.slot != 0 && load_slot(flash, record.slot, memory)) {
    boot->slot = record.slot;
    return;
  }
  if (record.slot != 0) boot->rolled_back = 1;
  memcpy(memory, built_in.bytes, built_in.size);
}
