/*
 * What is hot, while no host asks: the firmware counts by the engine's hotness monitors, for who
 * manages the card without its host. A host that wants a monitor takes it: it finds out by nothing
 * but registers, and the firmware writes to none of a monitor that it no longer has.
 */
#ifndef NEARKV_FIRMWARE_HOTNESS_H
#define NEARKV_FIRMWARE_HOTNESS_H

#include "firmware/chmu.h"

struct firmware;

/** As `nkv_card_monitor` numbers them. */
enum { HOTNESS_MONITORS = NKV_CARD_MONITOR_NEAR + 1 };

/** How the firmware left a monitor's registers, CONF0 without enable; CONF1 is 0 if it has none. */
struct hotness_claim {
  uint64_t conf0, conf1;
};

/** Lies where a restart of the firmware leaves it. */
struct hotness_claims {
  struct hotness_claim monitors[HOTNESS_MONITORS];
};

struct hotness_monitor {
  struct nkv_hotness_setting setting;
  struct chmu chmu;
  uint8_t step;    /**< What comes next. */
  bool was_free;   /**< Nobody had it when it was last looked at. */
  bool is_leaving; /**< It is to be given back. */
  bool is_late;    /**< Its list is of much more than an epoch. */
  uint64_t
      when_ns; /**< The next look, the end of the epoch, or until when an operation may take. */
  uint32_t threshold, most_threshold;
  uint32_t done; /**< Words that were written, or entries that were read. */
  struct chmu_list list;
  struct nkv_hotness_list next; /**< What is being read. */
};

struct hotness {
  struct hotness_monitor monitors[HOTNESS_MONITORS];
  struct nkv_hotness_list lists[HOTNESS_MONITORS]; /**< Of the last whole epoch. */
  unsigned last;                                   /**< The monitor that last had its turn. */
};

/** As after a reset: off. A monitor that counts for a firmware that was is given back. */
void hotness_start(struct firmware* firmware);

/** From now on so; INVALID_INPUT, and nothing changes, if one has a value that it may not have. */
enum nkv_cci_status hotness_set(struct firmware* firmware,
                                const struct nkv_hotness_setting settings[HOTNESS_MONITORS]);

/** What has become of it. */
struct nkv_hotness_status hotness_status(const struct firmware* firmware, unsigned monitor);

/**
 * Does the next few accesses to a monitor; false if there is nothing to do, or an operation of a
 * monitor to wait for.
 */
bool hotness_turn(struct firmware* firmware);

#endif
