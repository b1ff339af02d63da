#include "firmware/hotness.h"

#include "firmware/firmware.h"
#include "firmware/hotness_monitor.h"
#include "nkv_abi.h"

static const uint32_t blocks[HOTNESS_MONITORS] = {
    [NKV_CARD_MONITOR_HOST] = NKV_REG_HOST_HOTNESS(0),
    [NKV_CARD_MONITOR_NEAR] = NKV_REG_NEAR_HOTNESS(0),
};

static struct hotness_turn turn_of(struct firmware* firmware, unsigned index) {
  return (struct hotness_turn){.platform = firmware->platform,
                               .clock = &firmware->clock,
                               .monitor = &firmware->hotness.monitors[index],
                               .claim = &firmware->platform->kept->hotness.monitors[index],
                               .list = &firmware->hotness.lists[index],
                               .now_ns = firmware_uptime_ns(firmware),
                               .block = blocks[index]};
}

bool hotness_turn(struct firmware* firmware) {
  struct hotness* hotness = &firmware->hotness;
  for (unsigned i = 1; i <= HOTNESS_MONITORS; ++i) {
    const unsigned index = (hotness->last + i) % HOTNESS_MONITORS;
    const struct hotness_turn turn = turn_of(firmware, index);
    if (!hotness_monitor_turn(&turn)) continue;
    hotness->last = index;
    return true;
  }
  return false;
}

void hotness_start(struct firmware* firmware) {
  for (unsigned i = 0; i < HOTNESS_MONITORS; ++i) {
    const struct hotness_turn turn = turn_of(firmware, i);
    turn.monitor->setting =
        (struct nkv_hotness_setting){.unit_log2 = 12, .epoch_ms = 100, .units = 32};
    turn.monitor->chmu.at = turn.block + CHMU_INSTANCE;
    hotness_monitor_begin(&turn);
  }
}

static bool is_valid(const struct nkv_hotness_setting* setting) {
  return setting->enabled <= 1 && setting->unit_log2 >= CHMU_LEAST_UNIT_LOG2 &&
         setting->unit_log2 < CHMU_LEAST_UNIT_LOG2 + CHMU_UNIT_SIZES && setting->epoch_ms >= 1 &&
         setting->epoch_ms <= NKV_HOTNESS_EPOCH_MS && setting->units >= 1 &&
         setting->units <= NKV_HOTNESS_UNITS && setting->reserved == 0;
}

static bool is_same(const struct nkv_hotness_setting* a, const struct nkv_hotness_setting* b) {
  return a->enabled == b->enabled && a->unit_log2 == b->unit_log2 && a->epoch_ms == b->epoch_ms &&
         a->units == b->units;
}

enum nkv_cci_status hotness_set(struct firmware* firmware,
                                const struct nkv_hotness_setting settings[HOTNESS_MONITORS]) {
  for (unsigned i = 0; i < HOTNESS_MONITORS; ++i) {
    if (!is_valid(&settings[i])) return NKV_CCI_STATUS_INVALID_INPUT;
  }
  for (unsigned i = 0; i < HOTNESS_MONITORS; ++i) {
    const struct hotness_turn turn = turn_of(firmware, i);
    if (is_same(&settings[i], &turn.monitor->setting)) continue;
    turn.monitor->setting = settings[i];
    hotness_monitor_begin(&turn);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

struct nkv_hotness_status hotness_status(const struct firmware* firmware, unsigned monitor) {
  return (struct nkv_hotness_status){.state = firmware->hotness.lists[monitor].state,
                                     .threshold = firmware->hotness.monitors[monitor].threshold};
}
