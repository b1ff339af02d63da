/*
 * Flash memory that keeps images of the firmware: erased by blocks to ones, written by lines to
 * zeros. Each call returns when it is done; false if the memory did not do it.
 */
#ifndef NEARKV_FIRMWARE_FLASH_H
#define NEARKV_FIRMWARE_FLASH_H

#include <stdbool.h>
#include <stdint.h>

#include "firmware/bytes.h"
#include "nkv_card.h"

struct flash {
  void* context; /**< First argument of each call. */
  bool (*read)(void* context, uint32_t at, uint8_t line[LINE_BYTES]);
  /** Only zeros are written: the line was erased before. */
  bool (*write)(void* context, uint32_t at, const uint8_t line[LINE_BYTES]);
  /** Erases the block that begins at `at`. */
  bool (*erase)(void* context, uint32_t at);
};

#endif
