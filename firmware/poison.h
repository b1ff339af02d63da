/* The lines that are known to be poisoned, by address: CXL 3.1, 8.2.10.9.4. */
#ifndef NEARKV_FIRMWARE_POISON_H
#define NEARKV_FIRMWARE_POISON_H

#include <stdbool.h>
#include <stdint.h>

#include "nkv_card.h"

/** As the specification numbers them. */
enum poison_source { POISON_INTERNAL = 2, POISON_INJECTED = 3 };

/** A line's address, a multiple of 64, and its source in one number, as a list's records have it.
 */
static inline uint64_t poison_address(uint64_t line) { return line & ~UINT64_C(63); }
static inline unsigned poison_source(uint64_t line) { return line & 63; }

struct poison {
  uint64_t lines[NKV_POISON_RECORDS]; /**< By address, no two of the same. */
  unsigned count;
  unsigned injected;
  uint64_t lost_ns;                  /**< When the list was first too short, since 1970. */
  bool lost;                         /**< It was: there are poisoned lines that it does not have. */
  uint64_t cursor;                   /**< Where the reading of a long list goes on. */
  uint64_t cursor_first, cursor_end; /**< And for which range. */
};

/** The number of lines below an address. */
unsigned poison_below(const struct poison* poison, uint64_t address);

/** Whether the line is listed. */
bool poison_has(const struct poison* poison, uint64_t address);

/** Lists a line, once; one too many is remembered as lost. */
void poison_add(struct poison* poison, uint64_t address, enum poison_source source,
                uint64_t now_ns);

/** Takes a line off the list, if it is there. */
void poison_remove(struct poison* poison, uint64_t address);

/** Nothing is poisoned any more. */
void poison_clear(struct poison* poison);

#endif
