/*
 * The management side of a card: what its mailbox answers from, and what watches over its memory.
 * Never on the way of a query: the engine works whether this runs or hangs.
 *
 * One thread. No allocation: a card's whole state is this structure.
 */
#ifndef NEARKV_FIRMWARE_H
#define NEARKV_FIRMWARE_H

#include <stddef.h>

#include "firmware/background.h"
#include "firmware/clock.h"
#include "firmware/events.h"
#include "firmware/health.h"
#include "firmware/hotness.h"
#include "firmware/kept.h"
#include "firmware/platform.h"
#include "firmware/poison.h"
#include "firmware/scan.h"
#include "firmware/scrub.h"
#include "firmware/self_test.h"
#include "firmware/update.h"

enum { FEATURE_MOST_BYTES = NKV_CARD_TENANTS * NKV_CARD_TENANT_BYTES };

/** Parts of a feature that a host sets. */
struct feature_transfer {
  const uint8_t* uuid; /**< Of the feature; none: no part is there. */
  size_t size;
  uint8_t bytes[FEATURE_MOST_BYTES];
};

struct firmware {
  const struct platform* platform; /**< Outlives the firmware. */
  struct clock clock;
  struct events events;
  struct health health;
  struct hotness hotness;
  struct poison poison;
  struct background background;
  struct scan scan;
  struct scrub scrub;
  struct feature_transfer feature;
  struct update update;
  struct self_test self_test;
  uint64_t capacity_wiped_bytes; /**< Of the block that is being wiped. */
};

/** State after a reset. */
void firmware_start(struct firmware* firmware, const struct platform* platform);

/** Nanoseconds since reset. */
uint64_t firmware_uptime_ns(const struct firmware* firmware);

/** Lists a line as poisoned and tells of it; what is listed already is told once more. */
void firmware_note_poison(struct firmware* firmware, uint64_t address, unsigned transaction);

/**
 * One turn of the loop: tests itself in the first, takes an error of the memory, or does a slice of
 * what watches for hot units, runs in the background, or of the scrub. Returns whether there was
 * something to do.
 */
bool firmware_turn(struct firmware* firmware);

#endif
