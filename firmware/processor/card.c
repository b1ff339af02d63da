#include "firmware/processor/card.h"

#include <stddef.h>

/* More than the hardware gives an operation: it answers first, if anything does. */
enum { OPERATION_TURNS = 1000000 };

static volatile uint32_t* const watchdog = (volatile uint32_t*)NKV_PROCESSOR_WATCHDOG_AT;

void card_is_alive(void) { *watchdog = 1; }

_Noreturn void card_restart(void) {
  *watchdog = 0;
  for (;;) {
  }
}

bool card_ask(enum nkv_firmware_operation operation, uint64_t at, uint32_t bytes) {
  const uint32_t request = CARD_SHARE->operations + 1;
  CARD_SHARE->operation = operation;
  CARD_SHARE->operation_at = at;
  CARD_SHARE->operation_bytes = bytes;
  card_is_alive();
  CARD_SHARE->operations = request;
  for (int turn = 0; turn < OPERATION_TURNS; ++turn) {
    if (CARD_SHARE->operations_done == request) return CARD_SHARE->operation_failed == 0;
  }
  return false;
}

void card_take_line(uint8_t line[LINE_BYTES]) {
  for (int i = 0; i < LINE_BYTES; ++i) line[i] = CARD_SHARE->line[i];
}

void card_give_line(const uint8_t line[LINE_BYTES]) {
  for (int i = 0; i < LINE_BYTES; ++i) CARD_SHARE->line[i] = line[i];
}

static bool read_flash(void* context, uint32_t at, uint8_t line[LINE_BYTES]) {
  (void)context;
  const bool is_done = card_ask(NKV_FIRMWARE_OPERATION_READ_FLASH, at, LINE_BYTES);
  card_take_line(line);
  return is_done;
}

static bool write_flash(void* context, uint32_t at, const uint8_t line[LINE_BYTES]) {
  (void)context;
  card_give_line(line);
  return card_ask(NKV_FIRMWARE_OPERATION_WRITE_FLASH, at, LINE_BYTES);
}

static bool erase_flash(void* context, uint32_t at) {
  (void)context;
  return card_ask(NKV_FIRMWARE_OPERATION_ERASE_FLASH, at, NKV_FLASH_BLOCK_BYTES);
}

const struct flash card_flash = {
    .context = NULL, .read = read_flash, .write = write_flash, .erase = erase_flash};
