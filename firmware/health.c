#include "firmware/health.h"

#include "firmware/bytes.h"
#include "firmware/firmware.h"

enum {
  NEEDS_MAINTENANCE = 1 << 0,
  CRITICAL_TEMPERATURE = 2 << 2,
  MANY_CORRECTED_ERRORS = 1 << 4,
  LIFE_USED_UNKNOWN = 0xFF,
  BACK_CELSIUS = 2, /* So far from a threshold, it is left behind. */
};

void health_start(struct health* health) {
  *health = (struct health){.corrected_threshold = 1000, .hot_celsius = 85, .cold_celsius = 0};
}

bool health_count_corrected(struct health* health) {
  if (health->corrected_errors < UINT32_MAX) ++health->corrected_errors;
  return (health->alerts & ALERT_CORRECTED) != 0 &&
         health->corrected_errors % health->corrected_threshold == 0;
}

static bool is_critical(int16_t celsius) {
  return celsius >= CRITICALLY_HOT_CELSIUS || celsius <= CRITICALLY_COLD_CELSIUS;
}

/* Whether a state is new, and is kept until both thresholds are left behind. */
static bool enters(bool* state, bool is_beyond, bool is_back) {
  const bool is_new = is_beyond && !*state;
  *state = is_beyond || (*state && !is_back);
  return is_new;
}

bool health_turn(struct firmware* firmware) {
  const struct platform* platform = firmware->platform;
  struct health* health = &firmware->health;
  const int16_t celsius = platform->temperature_celsius(platform->context);
  const struct event event = {
      .kind = EVENT_OF_MODULE, .type = EVENT_TEMPERATURE, .celsius = celsius};
  const bool hot = (health->alerts & ALERT_HOT) != 0 && celsius >= health->hot_celsius;
  const bool cold = (health->alerts & ALERT_COLD) != 0 && celsius <= health->cold_celsius;
  const bool is_warning = enters(&health->is_warned, hot || cold,
                                 celsius < health->hot_celsius - BACK_CELSIUS &&
                                     celsius > health->cold_celsius + BACK_CELSIUS);
  const bool is_failure = enters(&health->is_critical, is_critical(celsius),
                                 celsius < CRITICALLY_HOT_CELSIUS - BACK_CELSIUS &&
                                     celsius > CRITICALLY_COLD_CELSIUS + BACK_CELSIUS);
  if (is_warning) events_add(&firmware->events, EVENT_LOG_WARNING, &event);
  if (is_failure) events_add(&firmware->events, EVENT_LOG_FAILURE, &event);
  return is_warning || is_failure;
}

void health_put(const struct firmware* firmware, int16_t celsius, uint8_t out[HEALTH_BYTES]) {
  const struct health* health = &firmware->health;
  const bool alerts = (health->alerts & ALERT_CORRECTED) != 0;
  const bool many = alerts && health->corrected_errors >= health->corrected_threshold;
  const bool needs_maintenance = firmware->poison.lost || firmware->self_test.failed != 0;
  put_number(out, needs_maintenance ? NEEDS_MAINTENANCE : 0U, 1);
  put_number(
      out + 2,
      (is_critical(celsius) ? CRITICAL_TEMPERATURE : 0U) | (many ? MANY_CORRECTED_ERRORS : 0U), 1);
  put_number(out + 3, LIFE_USED_UNKNOWN, 1);
  put_number(out + 4, (uint16_t)celsius, 2);
  put_number(out + 10, health->corrected_errors, 4);
}
