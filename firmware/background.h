/*
 * The one operation that goes on after its command was answered: CXL 3.1, 8.2.10.1. It works
 * through a range of memory, a slice in each turn of the loop.
 */
#ifndef NEARKV_FIRMWARE_BACKGROUND_H
#define NEARKV_FIRMWARE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "nkv_card.h"

struct firmware;

/** Does a slice from `background.at` on: BACKGROUND_STARTED to go on, else how it ended. */
typedef enum nkv_cci_status background_step(struct firmware* firmware);

struct background {
  background_step* step; /**< None: nothing runs. */
  uint16_t opcode;       /**< The last one's; 0 before the first. */
  uint16_t status;       /**< How it ended. */
  bool is_unwanted;      /**< The host wants it to end. */
  uint64_t first, at, end;
};

/** Starts an operation on [first, end): BACKGROUND_STARTED, or BUSY while another runs. */
enum nkv_cci_status background_start(struct background* background, enum nkv_cci_opcode opcode,
                                     background_step* step, uint64_t first, uint64_t end);

/** Bytes that one turn does of [at, end), `most` at most. */
uint32_t background_slice(uint64_t at, uint64_t end, uint32_t most);

/** Whether an operation of this opcode runs. */
bool background_is(const struct background* background, enum nkv_cci_opcode opcode);

/** Does a slice; false if nothing runs. */
bool background_turn(struct firmware* firmware);

/** How much of the last operation is done. */
unsigned background_percent(const struct background* background);

/** The mailbox's background command status register: CXL 3.1, 8.2.8.4.7. */
uint64_t background_register(const struct background* background);

#endif
