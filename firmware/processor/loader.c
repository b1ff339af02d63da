/* The loader in the processor's ROM: chooses an image, and goes there. */
#include "firmware/boot/loader.h"

#include "firmware/processor/card.h"

int main(void) {
  uint8_t* const memory = (uint8_t*)NKV_PROCESSOR_RAM_AT;
  const struct loader_image built_in = {
      .bytes = (const uint8_t*)(NKV_PROCESSOR_ROM_AT + NKV_PROCESSOR_LOADER_BYTES),
      .size = NKV_PROCESSOR_ROM_BYTES - NKV_PROCESSOR_LOADER_BYTES};
  ++CARD_PANIC->starts;
  card_is_alive();
  loader_run(&card_flash, built_in, memory, CARD_BOOT);
  card_is_alive();
  ((void (*)(void))memory)();
  return 0;
}
