/* Temperature and corrected errors, and when the host is told of them: CXL 3.1, 8.2.10.9.3. */
#ifndef NEARKV_FIRMWARE_HEALTH_H
#define NEARKV_FIRMWARE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

struct firmware;

/** Alerts that a host may program, as bits of a set of them. */
enum { ALERT_HOT = 1 << 1, ALERT_COLD = 1 << 2, ALERT_CORRECTED = 1 << 3 };
enum { ALERTS = ALERT_HOT | ALERT_COLD | ALERT_CORRECTED };

enum { CRITICALLY_HOT_CELSIUS = 95, CRITICALLY_COLD_CELSIUS = -10 };

struct health {
  uint32_t corrected_errors;    /**< Since reset; stays at its largest number. */
  uint8_t alerts;               /**< Which are enabled. */
  uint16_t corrected_threshold; /**< An event for each so many corrected errors; never 0. */
  int16_t hot_celsius, cold_celsius;
  bool is_warned, is_critical; /**< Told of a temperature that has not gone back since. */
};

void health_start(struct health* health);

/** Counts a corrected error; whether the host wants to be told. */
bool health_count_corrected(struct health* health);

/** Tells of a temperature that has become too high or too low; false if there is nothing new. */
bool health_turn(struct firmware* firmware);

enum { HEALTH_BYTES = 18 };

/** The payload of GET_HEALTH, with this temperature: table 8-132. `out` is zero. */
void health_put(const struct firmware* firmware, int16_t celsius, uint8_t out[HEALTH_BYTES]);

#endif
