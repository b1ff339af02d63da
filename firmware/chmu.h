/*
 * A hotness monitoring unit among the engine's registers, as CXL 3.2 defines it. Functions answer
 * false if the card does not.
 */
#ifndef NEARKV_FIRMWARE_CHMU_H
#define NEARKV_FIRMWARE_CHMU_H

#include "firmware/platform.h"
#include "nkv_card.h"

/** Registers, from a block's first instance on. */
enum {
  CHMU_INSTANCE = 0x10,
  CHMU_CONF0 = 0x40,
  CHMU_CONF1 = 0x48,
  CHMU_STATUS = 0x60,
  CHMU_HEAD_TAIL = 0x68,
};

#define CHMU_CONF0_ENABLE (UINT64_C(1) << 16)
#define CHMU_STATUS_ENABLED (UINT64_C(1) << 0)
#define CHMU_STATUS_OPERATION (UINT64_C(0xFFFF) << 16)
#define CHMU_STATUS_OVERFLOW (UINT64_C(1) << 40) /**< Writing 1 clears it. */

/** Units have 2^8 to 2^39 bytes. */
enum { CHMU_LEAST_UNIT_LOG2 = 8, CHMU_UNIT_SIZES = 32 };

struct chmu {
  uint32_t at; /**< Of the instance, among the engine's registers. */
  uint32_t ranges_at, list_at;
  uint32_t range_words; /**< Of the bitmap of ranges. */
  uint32_t entries;     /**< Of the ring that the hot list is. */
  uint32_t counter_bits;
};

/** What a hot list holds: entries of its ring from `head` on. */
struct chmu_list {
  uint32_t head, used;
  bool has_lost, is_enabled;
};

/**
 * Learns what the monitor at `block` is, and whether it can count so: STARTING, else UNFIT or
 * ABSENT.
 */
enum nkv_hotness_state chmu_find(const struct platform* platform, uint32_t block,
                                 const struct nkv_hotness_setting* setting, struct chmu* chmu);

/** The configuration of a setting; CONF0 without enable. */
uint64_t chmu_conf0(uint32_t threshold);
uint64_t chmu_conf1(const struct nkv_hotness_setting* setting);

bool chmu_read(const struct platform* platform, const struct chmu* chmu, uint32_t at,
               uint64_t* value);
bool chmu_write(const struct platform* platform, const struct chmu* chmu, uint32_t at,
                uint64_t value);

/** Watches the 16 GiB that word `word` of its ranges stands for. */
bool chmu_watch(const struct platform* platform, const struct chmu* chmu, uint32_t word);

/** Looks how many entries there are. */
bool chmu_look(const struct platform* platform, const struct chmu* chmu, struct chmu_list* list);

/** Reads the entry at `index` behind the list's first: the number of a unit. */
bool chmu_take(const struct platform* platform, const struct chmu* chmu,
               const struct chmu_list* list, uint32_t index, uint64_t* unit);

/**
 * Gives all entries' places back; where some were lost, the first call forgets that, and the second
 * does the rest. Each writes once.
 */
bool chmu_free(const struct platform* platform, const struct chmu* chmu, struct chmu_list* list);

#endif
