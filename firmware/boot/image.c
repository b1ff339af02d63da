#include "firmware/boot/image.h"

#include <string.h>

_Static_assert(sizeof(struct nkv_firmware_image) + IMAGE_MOST_BYTES <= NKV_FLASH_SLOT_BYTES,
               "an image has room in a slot");
_Static_assert(sizeof(struct nkv_firmware_image) % LINE_BYTES == 0, "a header is whole lines");

uint32_t image_slot_at(unsigned slot) {
  return NKV_FLASH_SLOTS_AT + (slot - 1) * NKV_FLASH_SLOT_BYTES;
}

bool image_is_header(const struct nkv_firmware_image* header) {
  return header->magic == NKV_IMAGE_MAGIC && header->bytes != 0 &&
         header->bytes <= IMAGE_MOST_BYTES;
}

bool image_read_header(const struct flash* flash, unsigned slot,
                       struct nkv_firmware_image* header) {
  uint8_t* bytes = (uint8_t*)header;
  for (size_t at = 0; at < sizeof(*header); at += LINE_BYTES) {
    if (!flash->read(flash->context, image_slot_at(slot) + (uint32_t)at, bytes + at)) return false;
  }
  return image_is_header(header);
}

void image_check_start(struct image_check* check, unsigned slot,
                       const struct nkv_firmware_image* header) {
  check->header = *header;
  check->at = image_slot_at(slot) + (uint32_t)sizeof(*header);
  check->left = header->bytes;
  crypto_blake2b_init(&check->hash, sizeof(header->digest));
}

bool image_check_line(struct image_check* check, const struct flash* flash,
                      uint8_t line[LINE_BYTES]) {
  if (check->left == 0 || !flash->read(flash->context, check->at, line)) return false;
  const uint32_t bytes = check->left < LINE_BYTES ? check->left : LINE_BYTES;
  crypto_blake2b_update(&check->hash, line, bytes);
  check->at += LINE_BYTES;
  check->left -= bytes;
  return true;
}

bool image_check_end(struct image_check* check) {
  uint8_t digest[sizeof(check->header.digest)];
  crypto_blake2b_final(&check->hash, digest);
  return check->left == 0 && memcmp(digest, check->header.digest, sizeof(digest)) == 0 &&
         crypto_eddsa_check(check->header.signature, image_public_key,
                            (const uint8_t*)&check->header, IMAGE_SIGNED_BYTES) == 0;
}
