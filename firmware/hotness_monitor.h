/*
 * One hotness monitor, step by step: a few accesses to its registers in each turn, and none that
 * waits. Before a write the registers have to be as the firmware left them: else somebody on the
 * host has taken the monitor. Of a write that is under way by then, no register can tell.
 */
#ifndef NEARKV_FIRMWARE_HOTNESS_MONITOR_H
#define NEARKV_FIRMWARE_HOTNESS_MONITOR_H

#include "firmware/clock.h"
#include "firmware/hotness.h"

/** A monitor, and what its steps need. */
struct hotness_turn {
  const struct platform* platform;
  const struct clock* clock;
  struct hotness_monitor* monitor;
  struct hotness_claim* claim;
  struct nkv_hotness_list* list;
  uint64_t now_ns;
  uint32_t block; /**< Of its registers. */
};

/** Begins anew by the monitor's setting; what was counted before counts no more. */
void hotness_monitor_begin(const struct hotness_turn* turn);

/** Does a step; false if there is none to do now. */
bool hotness_monitor_turn(const struct hotness_turn* turn);

#endif
