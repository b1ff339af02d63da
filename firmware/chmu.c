#include "firmware/chmu.h"

#include "nkv_abi.h"

enum {
  COMMON_CAP0 = 0x00,
  VERSION = 1,
  CAP0 = 0x00,
  CAP1 = 0x08,
  CAP2 = 0x10,
  CAP3 = 0x18,
  WORD_BYTES = 8,
  /* Reads and writes. A host that wants both says 6: so the firmware's configuration is seldom
     another's. */
  TRACK = 3,
  MODE_EPOCHS = 0,
  SCALE_MS = 2,
};

#define CAP1_EPOCHS (UINT64_C(1) << 48)

static uint64_t field(uint64_t value, unsigned at, unsigned bits) {
  return value >> at & ((UINT64_C(1) << bits) - 1);
}

static uint64_t epoch_us(uint64_t scale, uint64_t value) {
  uint64_t us = value * 100;
  while (scale-- > 1) us *= 10;
  return us;
}

static bool can_count(uint64_t cap0, uint64_t cap1, const struct nkv_hotness_setting* setting) {
  const uint64_t us = epoch_us(SCALE_MS, setting->epoch_ms);
  return field(cap0, 8 + TRACK - 1, 1) != 0 && (cap1 & CAP1_EPOCHS) != 0 &&
         field(cap1, setting->unit_log2 - CHMU_LEAST_UNIT_LOG2, 1) != 0 &&
         field(cap1, 32, 1) != 0 && us <= epoch_us(field(cap0, 16, 4), field(cap0, 20, 12)) &&
         us >= epoch_us(field(cap0, 32, 4), field(cap0, 36, 12));
}

enum nkv_hotness_state chmu_find(const struct platform* platform, uint32_t block,
                                 const struct nkv_hotness_setting* setting, struct chmu* chmu) {
  const uint64_t end = NKV_HOTNESS_WORDS * WORD_BYTES - CHMU_INSTANCE;
  struct chmu found = {.at = block + CHMU_INSTANCE};
  uint64_t common, cap0, cap1, ranges, list, status;
  if (!platform->read_register(platform->context, block + COMMON_CAP0, &common) ||
      !chmu_read(platform, &found, CAP0, &cap0) || !chmu_read(platform, &found, CAP1, &cap1) ||
      !chmu_read(platform, &found, CAP2, &ranges) || !chmu_read(platform, &found, CAP3, &list) ||
      !chmu_read(platform, &found, CHMU_STATUS, &status)) {
    return NKV_HOTNESS_STATE_ABSENT;
  }
  const uint64_t entries = field(cap0, 48, 16);
  const uint64_t counter_bits = field(status, 32, 8);
  if (field(common, 0, 4) != VERSION || field(common, 8, 8) == 0 || entries < 2 || list > end ||
      entries * WORD_BYTES > end - list || ranges > list || counter_bits == 0 ||
      counter_bits > 32) {
    return NKV_HOTNESS_STATE_ABSENT;
  }
  found.ranges_at = found.at + (uint32_t)ranges;
  found.list_at = found.at + (uint32_t)list;
  found.range_words = (uint32_t)(list - ranges) / WORD_BYTES;
  found.entries = (uint32_t)entries;
  found.counter_bits = (uint32_t)counter_bits;
  *chmu = found;
  return can_count(cap0, cap1, setting) ? NKV_HOTNESS_STATE_STARTING : NKV_HOTNESS_STATE_UNFIT;
}

uint64_t chmu_conf0(uint32_t threshold) { return (uint64_t)threshold << 32 | TRACK; }

uint64_t chmu_conf1(const struct nkv_hotness_setting* setting) {
  return setting->unit_log2 | (uint64_t)MODE_EPOCHS << 40 | (uint64_t)SCALE_MS << 48 |
         (uint64_t)setting->epoch_ms << 52;
}

bool chmu_read(const struct platform* platform, const struct chmu* chmu, uint32_t at,
               uint64_t* value) {
  return platform->read_register(platform->context, chmu->at + at, value);
}

bool chmu_write(const struct platform* platform, const struct chmu* chmu, uint32_t at,
                uint64_t value) {
  return platform->write_register(platform->context, chmu->at + at, value);
}

bool chmu_watch(const struct platform* platform, const struct chmu* chmu, uint32_t word) {
  return platform->write_register(platform->context, chmu->ranges_at + word * WORD_BYTES,
                                  UINT64_MAX);
}

bool chmu_look(const struct platform* platform, const struct chmu* chmu, struct chmu_list* list) {
  uint64_t status, place;
  if (!chmu_read(platform, chmu, CHMU_STATUS, &status) ||
      !chmu_read(platform, chmu, CHMU_HEAD_TAIL, &place)) {
    return false;
  }
  /* Whatever a card says, this stays within its list. */
  const uint32_t tail = (uint32_t)field(place, 16, 16) % chmu->entries;
  list->head = (uint32_t)field(place, 0, 16) % chmu->entries;
  list->used = (tail + chmu->entries - list->head) % chmu->entries;
  list->has_lost = (status & CHMU_STATUS_OVERFLOW) != 0;
  list->is_enabled = (status & CHMU_STATUS_ENABLED) != 0;
  return true;
}

bool chmu_take(const struct platform* platform, const struct chmu* chmu,
               const struct chmu_list* list, uint32_t index, uint64_t* unit) {
  const uint32_t at = (list->head + index) % chmu->entries;
  uint64_t entry;
  if (!platform->read_register(platform->context, chmu->list_at + at * WORD_BYTES, &entry)) {
    return false;
  }
  *unit = entry >> chmu->counter_bits;
  return true;
}

bool chmu_free(const struct platform* platform, const struct chmu* chmu, struct chmu_list* list) {
  if (list->has_lost) {
    list->has_lost = false;
    return chmu_write(platform, chmu, CHMU_STATUS, CHMU_STATUS_OVERFLOW);
  }
  return chmu_write(platform, chmu, CHMU_HEAD_TAIL, (list->head + list->used) % chmu->entries);
}
