/* The processor's place on its card: what it shares with the logic around it, and what it asks. */
#ifndef NEARKV_FIRMWARE_PROCESSOR_CARD_H
#define NEARKV_FIRMWARE_PROCESSOR_CARD_H

#include "firmware/flash.h"

#define CARD_SHARE \
  ((volatile struct nkv_firmware_share*)(NKV_PROCESSOR_RAM_AT + NKV_PROCESSOR_SHARE_AT))
#define CARD_PANIC ((struct nkv_firmware_panic*)(NKV_PROCESSOR_RAM_AT + NKV_PROCESSOR_PANIC_AT))
#define CARD_KEPT ((struct kept*)(NKV_PROCESSOR_RAM_AT + NKV_PROCESSOR_KEPT_AT))
#define CARD_BOOT ((struct nkv_firmware_boot*)(NKV_PROCESSOR_RAM_AT + NKV_PROCESSOR_BOOT_AT))

/** Of the logic around the processor; its context is not used. */
extern const struct flash card_flash;

/** Has an operation carried out on what `share->line` holds; false if it failed. */
bool card_ask(enum nkv_firmware_operation operation, uint64_t at, uint32_t bytes);

/** Copies from and to `share->line`. */
void card_take_line(uint8_t line[LINE_BYTES]);
void card_give_line(const uint8_t line[LINE_BYTES]);

/** Says that the firmware is alive. */
void card_is_alive(void);

/** Has the core start anew, from the loader on. */
_Noreturn void card_restart(void);

#endif
