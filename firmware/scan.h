/* What a scan of the memory found: CXL 3.1, 8.2.10.9.4.4. */
#ifndef NEARKV_FIRMWARE_SCAN_H
#define NEARKV_FIRMWARE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "nkv_card.h"

struct scan {
  uint64_t lines[NKV_SCAN_RECORDS]; /**< As the list of poison has them. */
  unsigned count;
  unsigned told;         /**< The first so many of them the host has read. */
  bool is_done;          /**< There are results. */
  bool is_silent;        /**< No events of what it finds. */
  uint64_t restart, end; /**< What is left, because there was no room for more. */
};

/** Bytes that a scan checks in a turn. */
enum { SCAN_SLICE_BYTES = 1 << 20 };

#endif
