/*
 * What a card starts with: puts an image of the firmware into memory, one that is signed, or the
 * one that is built in. An image that is new has BOOT_TRIES starts to answer a command; then the
 * one before comes back.
 */
#ifndef NEARKV_FIRMWARE_BOOT_LOADER_H
#define NEARKV_FIRMWARE_BOOT_LOADER_H

#include "firmware/boot/image.h"

/** What is built in, with zeros behind it. */
struct loader_image {
  const uint8_t* bytes;
  uint32_t size;
};

/**
 * Fills `memory`, of IMAGE_MOST_BYTES, and tells in `boot` what it chose. Whatever flash memory
 * holds or fails to do, there is a firmware afterwards.
 */
void loader_run(const struct flash* flash, struct loader_image built_in, uint8_t* memory,
                struct nkv_firmware_boot* boot);

#endif
