/* Lines of memory, and little-endian fields at any offset: CXL's payloads are packed. */
#ifndef NEARKV_FIRMWARE_BYTES_H
#define NEARKV_FIRMWARE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/** What memory is read, written and poisoned by. */
enum { LINE_BYTES = 64 };

/** The number in `bytes` (1 to 8) bytes. */
static inline uint64_t take_number(const uint8_t* from, size_t bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | from[bytes];
  return value;
}

/** Writes the low `bytes` (1 to 8) bytes of `value`. */
static inline void put_number(uint8_t* at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i, value >>= 8) at[i] = value & 0xff;
}

#endif
