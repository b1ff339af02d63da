/* Health and alerts: CXL 3.1, 8.2.10.9.3. */
#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum {
  NEEDS_MAINTENANCE = 1 << 0,
  CRITICAL_TEMPERATURE = 2 << 2,
  MANY_CORRECTED_ERRORS = 1 << 4,
  LIFE_USED_UNKNOWN = 0xFF,
};

/* Table 8-132. */
enum nkv_cci_status cci_get_health(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)payload;
  const struct platform* platform = firmware->platform;
  const struct health* health = &firmware->health;
  const int16_t celsius = platform->temperature_celsius(platform->context);
  const bool critical = celsius >= CRITICALLY_HOT_CELSIUS || celsius <= CRITICALLY_COLD_CELSIUS;
  const bool alerts = (health->alerts & ALERT_CORRECTED) != 0;
  const bool many = alerts && health->corrected_errors >= health->corrected_threshold;

  uint8_t* out = cci_answer_with(answer, 18);
  put_number(out, firmware->poison.lost ? NEEDS_MAINTENANCE : 0U, 1);
  put_number(out + 2, (critical ? CRITICAL_TEMPERATURE : 0U) | (many ? MANY_CORRECTED_ERRORS : 0U),
             1);
  put_number(out + 3, LIFE_USED_UNKNOWN, 1);
  put_number(out + 4, (uint16_t)celsius, 2);
  put_number(out + 10, health->corrected_errors, 4);
  return NKV_CCI_STATUS_SUCCESS;
}

/* Table 8-133. */
enum nkv_cci_status cci_get_alerts(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)payload;
  const struct health* health = &firmware->health;
  uint8_t* out = cci_answer_with(answer, 16);
  put_number(out, health->alerts, 1);
  put_number(out + 1, ALERT_CORRECTED, 1);
  put_number(out + 4, (uint16_t)CRITICALLY_HOT_CELSIUS, 2);
  put_number(out + 6, (uint16_t)CRITICALLY_COLD_CELSIUS, 2);
  put_number(out + 12, health->corrected_threshold, 2);
  return NKV_CCI_STATUS_SUCCESS;
}

/* Table 8-134. */
enum nkv_cci_status cci_set_alerts(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)answer;
  const uint8_t* in = payload.bytes;
  const uint16_t threshold = (uint16_t)take_number(in + 8, 2);
  if ((in[0] & ~ALERT_CORRECTED) != 0 || (in[1] & ~in[0]) != 0) return NKV_CCI_STATUS_INVALID_INPUT;
  if (in[0] == 0) return NKV_CCI_STATUS_SUCCESS;
  if (in[1] != 0) {
    if (threshold == 0) return NKV_CCI_STATUS_INVALID_INPUT;
    firmware->health.corrected_threshold = threshold;
  }
  firmware->health.alerts = in[1];
  return NKV_CCI_STATUS_SUCCESS;
}
