#include "firmware/boot/record.h"

#include <monocypher.h>
#include <string.h>

enum { BLOCKS = 2 };

_Static_assert(sizeof(struct nkv_boot_record) == LINE_BYTES, "a line is written whole, or is torn");

static void compute_digest(const struct nkv_boot_record* record, uint8_t* digest) {
  crypto_blake2b(digest, sizeof(record->digest), (const uint8_t*)record,
                 offsetof(struct nkv_boot_record, digest));
}

static bool is_whole(const struct nkv_boot_record* record) {
  uint8_t digest[sizeof(record->digest)];
  compute_digest(record, digest);
  return record->magic == NKV_BOOT_RECORD_MAGIC && record->slot <= NKV_FLASH_SLOTS &&
         record->trusted <= NKV_FLASH_SLOTS && memcmp(digest, record->digest, sizeof(digest)) == 0;
}

void boot_record_read(const struct flash* flash, struct nkv_boot_record* record) {
  memset(record, 0, sizeof(*record));
  for (uint32_t block = 0; block < BLOCKS; ++block) {
    struct nkv_boot_record found;
    if (!flash->read(flash->context, block * NKV_FLASH_BLOCK_BYTES, (uint8_t*)&found)) continue;
    if (is_whole(&found) && found.generation > record->generation) *record = found;
  }
}

bool boot_record_write(const struct flash* flash, struct nkv_boot_record* record) {
  const uint32_t at = (record->generation + 1) % BLOCKS * NKV_FLASH_BLOCK_BYTES;
  struct nkv_boot_record next = *record;
  next.magic = NKV_BOOT_RECORD_MAGIC;
  ++next.generation;
  compute_digest(&next, next.digest);
  if (!flash->erase(flash->context, at) ||
      !flash->write(flash->context, at, (const uint8_t*)&next)) {
    return false;
  }
  *record = next;
  return true;
}
