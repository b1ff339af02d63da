#include "firmware/scrub.h"

#include "firmware/firmware.h"

static uint64_t pause_ns(const struct firmware* firmware) {
  const uint64_t slices = firmware->platform->memory_bytes / SCRUB_SLICE_BYTES;
  const uint64_t hour_ns = UINT64_C(3600000000000);
  return firmware->scrub.hours * hour_ns / (slices > 0 ? slices : 1);
}

void scrub_start(struct scrub* scrub) { *scrub = (struct scrub){.is_enabled = true, .hours = 12}; }

void scrub_set(struct firmware* firmware, uint8_t hours, bool is_enabled) {
  firmware->scrub.hours = hours;
  firmware->scrub.is_enabled = is_enabled;
  firmware->scrub.when_ns = firmware_uptime_ns(firmware) + pause_ns(firmware);
}

bool scrub_turn(struct firmware* firmware) {
  struct scrub* scrub = &firmware->scrub;
  const struct platform* platform = firmware->platform;
  const uint64_t now = firmware_uptime_ns(firmware);
  if (!scrub->is_enabled || now < scrub->when_ns) return false;

  const uint32_t bytes = background_slice(scrub->at, platform->memory_bytes, SCRUB_SLICE_BYTES);
  const uint64_t end = scrub->at + bytes;
  uint64_t at = scrub->at;
  if (!platform->check_lines(platform->context, &at, bytes)) at = end;
  if (at < end) {
    firmware_note_poison(firmware, at, EVENT_BY_SCRUB);
    scrub->at = at + LINE_BYTES; /* The rest of the slice is due at once. */
  } else {
    scrub->at = end;
    scrub->when_ns = now + pause_ns(firmware);
  }
  if (scrub->at >= platform->memory_bytes) scrub->at = 0;
  return true;
}
