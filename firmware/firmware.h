/*
 * The management side of a card: what its mailbox answers from, and what watches over its memory.
 * Never on the way of a query: the engine works whether this runs or hangs.
 *
 * One thread. No allocation: a card's whole state is this structure.
 */
#ifndef NEARKV_FIRMWARE_H
#define NEARKV_FIRMWARE_H

#include "firmware/clock.h"
#include "firmware/events.h"
#include "firmware/health.h"
#include "firmware/platform.h"
#include "firmware/poison.h"

struct firmware {
  const struct platform* platform; /**< Outlives the firmware. */
  struct clock clock;
  struct events events;
  struct health health;
  struct poison poison;
};

/** State after a reset. */
void firmware_start(struct firmware* firmware, const struct platform* platform);

/** One turn of the loop: takes at most one error of the memory. Returns whether there was one. */
bool firmware_turn(struct firmware* firmware);

#endif
