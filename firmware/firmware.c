#include "firmware/firmware.h"

#include <string.h>

void firmware_start(struct firmware* firmware, const struct platform* platform) {
  memset(firmware, 0, sizeof(*firmware));
  firmware->platform = platform;
  clock_start(&firmware->clock, platform);
  events_start(&firmware->events, platform, &firmware->clock);
  health_start(&firmware->health);
  scrub_start(&firmware->scrub);
  capacity_start(firmware);
  tenants_start(firmware);
  hotness_start(firmware);
  update_start(firmware);
}

uint64_t firmware_uptime_ns(const struct firmware* firmware) {
  return firmware->platform->uptime_ns(firmware->platform->context);
}

/* An event for each corrected error would drown what matters: CXL 3.1, 8.2.10.2.1.1 leaves the
   threshold to the device, and ours is the host's own. */
static void note_corrected(struct firmware* firmware, uint64_t address) {
  if (!health_count_corrected(&firmware->health)) return;
  events_add(&firmware->events, EVENT_LOG_WARNING,
             &(struct event){
                 .address = address, .descriptor = EVENT_THRESHOLD, .transaction = EVENT_BY_SCRUB});
}

void firmware_note_poison(struct firmware* firmware, uint64_t address, unsigned transaction) {
  poison_add(&firmware->poison, address, POISON_INTERNAL, clock_now_ns(&firmware->clock));
  events_add(&firmware->events, EVENT_LOG_FAILURE,
             &(struct event){.address = address,
                             .descriptor = EVENT_UNCORRECTABLE,
                             .transaction = (uint8_t)transaction});
}

bool firmware_turn(struct firmware* firmware) {
  const struct platform* platform = firmware->platform;
  struct media_error error;
  if (self_test_turn(firmware) || health_turn(firmware)) return true;
  if (!platform->take_media_error(platform->context, &error)) {
    return hotness_turn(firmware) || background_turn(firmware) || capacity_turn(firmware) ||
           scrub_turn(firmware);
  }
  if (error.corrected) {
    note_corrected(firmware, error.address);
  } else {
    firmware_note_poison(firmware, error.address, EVENT_BY_SCRUB);
  }
  return true;
}
