/* The time of day, which a host sets: CXL 3.1, 8.2.10.4. */
#ifndef NEARKV_FIRMWARE_CLOCK_H
#define NEARKV_FIRMWARE_CLOCK_H

#include "firmware/platform.h"

struct clock {
  const struct platform* platform;
  bool set;
  uint64_t at_reset_ns; /**< Since 1970, modulo 2^64. */
};

void clock_start(struct clock* clock, const struct platform* platform);

/** Makes it `now_ns` nanoseconds since 1970. */
void clock_set(struct clock* clock, uint64_t now_ns);

/** Nanoseconds since 1970; 0 before it was set. */
uint64_t clock_now_ns(const struct clock* clock);

#endif
