/* The patrol scrub: all of the memory, a slice now and then. */
#ifndef NEARKV_FIRMWARE_SCRUB_H
#define NEARKV_FIRMWARE_SCRUB_H

#include <stdbool.h>
#include <stdint.h>

struct firmware;

enum { SCRUB_LEAST_HOURS = 1, SCRUB_SLICE_BYTES = 1 << 20 };

struct scrub {
  bool is_enabled;
  uint8_t hours;    /**< For all of the memory, at least SCRUB_LEAST_HOURS. */
  uint64_t at;      /**< The next slice, */
  uint64_t when_ns; /**< which is due then, by the time since reset. */
};

/** As after a reset: enabled, once in 12 hours. */
void scrub_start(struct scrub* scrub);

/** From now on once in so many hours, or not at all. */
void scrub_set(struct firmware* firmware, uint8_t hours, bool is_enabled);

/** Checks the next slice if it is due; false if not. */
bool scrub_turn(struct firmware* firmware);

#endif
