/* An image of the firmware in a slot of flash memory: whether it is whole, and whose it is. */
#ifndef NEARKV_FIRMWARE_BOOT_IMAGE_H
#define NEARKV_FIRMWARE_BOOT_IMAGE_H

#include <monocypher.h>

#include "firmware/flash.h"

enum {
  IMAGE_MOST_BYTES = NKV_PROCESSOR_RAM_BYTES / 2,
  IMAGE_SIGNED_BYTES = offsetof(struct nkv_firmware_image, signature),
};

/** Of whom signs: comes from the build, beside the loader. */
extern const uint8_t image_public_key[32];

/** Where slot 1, 2, ... begins. */
uint32_t image_slot_at(unsigned slot);

/** Whether this can be what an image begins with. */
bool image_is_header(const struct nkv_firmware_image* header);

/** Reads what a slot begins with; false if that is no image. */
bool image_read_header(const struct flash* flash, unsigned slot, struct nkv_firmware_image* header);

/** A check under way, line for line. */
struct image_check {
  struct nkv_firmware_image header;
  uint32_t at;   /**< The next line in flash memory. */
  uint32_t left; /**< Bytes of the image that were not read yet. */
  crypto_blake2b_ctx hash;
};

/** Begins with the image of a slot whose header is this one; image_is_header() holds. */
void image_check_start(struct image_check* check, unsigned slot,
                       const struct nkv_firmware_image* header);

/** Takes the next line; false if there is none, or it cannot be read. */
bool image_check_line(struct image_check* check, const struct flash* flash,
                      uint8_t line[LINE_BYTES]);

/** Whether all lines were read, and are what the owner of the key signed. Millions of cycles. */
bool image_check_end(struct image_check* check);

#endif
