/*
 * What the firmware needs of the card that it runs on: registers on the core, a fake in tests on a
 * host. All calls come from the one loop of the firmware.
 */
#ifndef NEARKV_FIRMWARE_PLATFORM_H
#define NEARKV_FIRMWARE_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "firmware/flash.h"

/** An error that the memory controller found. */
struct media_error {
  uint64_t address; /**< Of the line, in device memory. */
  bool corrected;   /**< By ECC; else the line is poisoned. */
};

struct kept;

struct platform {
  void* context; /**< First argument of each call. */
  uint64_t memory_bytes;
  uint64_t dynamic_bytes; /**< Of these, the last ones: dynamic capacity. */
  uint64_t serial;
  struct kept* kept;                      /**< Outlives the firmware; not NULL, zero at first. */
  const struct nkv_firmware_panic* panic; /**< The last one; not NULL. */
  const struct nkv_firmware_boot* boot;   /**< What the loader told; not NULL. */
  const struct flash* flash;              /**< All its calls fail if the card has none. */

  /** Nanoseconds since reset; never goes back. */
  uint64_t (*uptime_ns)(void* context);
  int16_t (*temperature_celsius)(void* context);
  /** Takes the oldest error that was not taken yet; false if there is none. */
  bool (*take_media_error)(void* context, struct media_error* error);
  /** Makes a line answer with poison; false if the controller did not. */
  bool (*poison_line)(void* context, uint64_t address);
  /** Writes a line, which ends its poison; false if the controller did not. */
  bool (*write_line)(void* context, uint64_t address, const uint8_t bytes[LINE_BYTES]);
  /**
   * Reads `bytes` from `*address` on, which becomes the first line that is poisoned, or where they
   * end; false if the controller did not.
   */
  bool (*check_lines)(void* context, uint64_t* address, uint32_t bytes);
  /** Makes `bytes` from `address` on zero; false if the controller did not. */
  bool (*wipe)(void* context, uint64_t address, uint32_t bytes);
  /** Registers of the engine, by the contract's offsets; false if there is none. */
  bool (*read_register)(void* context, uint32_t offset, uint64_t* value);
  bool (*write_register)(void* context, uint32_t offset, uint64_t value);
  /** Starts the firmware anew, from the loader on; does not return on a card. */
  void (*restart)(void* context);
  /** Raises the mailbox's interrupt. */
  void (*interrupt)(void* context, unsigned message);
};

#endif
