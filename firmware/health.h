/* Temperature and corrected errors, and when the host is told of them: CXL 3.1, 8.2.10.9.3. */
#ifndef NEARKV_FIRMWARE_HEALTH_H
#define NEARKV_FIRMWARE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

/** The alert that a host may program, as a bit of a set of alerts. */
enum { ALERT_CORRECTED = 1 << 3 };

enum { CRITICALLY_HOT_CELSIUS = 95, CRITICALLY_COLD_CELSIUS = -10 };

struct health {
  uint32_t corrected_errors;    /**< Since reset; stays at its largest number. */
  uint8_t alerts;               /**< Which are enabled. */
  uint16_t corrected_threshold; /**< An event for each so many corrected errors; never 0. */
};

void health_start(struct health* health);

/** Counts a corrected error; whether the host wants to be told. */
bool health_count_corrected(struct health* health);

#endif
