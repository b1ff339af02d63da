#include "firmware/clock.h"

void clock_start(struct clock* clock, const struct platform* platform) {
  *clock = (struct clock){.platform = platform};
}

void clock_set(struct clock* clock, uint64_t now_ns) {
  clock->at_reset_ns = now_ns - clock->platform->uptime_ns(clock->platform->context);
  clock->set = true;
}

uint64_t clock_now_ns(const struct clock* clock) {
  if (!clock->set) return 0;
  return clock->at_reset_ns + clock->platform->uptime_ns(clock->platform->context);
}
