/* Health and alerts: CXL 3.1, 8.2.10.9.3. */
#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum nkv_cci_status cci_get_health(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)payload;
  const struct platform* platform = firmware->platform;
  health_put(firmware, platform->temperature_celsius(platform->context),
             cci_answer_with(answer, HEALTH_BYTES));
  return NKV_CCI_STATUS_SUCCESS;
}

/* Table 8-133. */
enum nkv_cci_status cci_get_alerts(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)payload;
  const struct health* health = &firmware->health;
  uint8_t* out = cci_answer_with(answer, 16);
  put_number(out, health->alerts, 1);
  put_number(out + 1, ALERTS, 1);
  put_number(out + 4, (uint16_t)CRITICALLY_HOT_CELSIUS, 2);
  put_number(out + 6, (uint16_t)CRITICALLY_COLD_CELSIUS, 2);
  put_number(out + 8, (uint16_t)health->hot_celsius, 2);
  put_number(out + 10, (uint16_t)health->cold_celsius, 2);
  put_number(out + 12, health->corrected_threshold, 2);
  return NKV_CCI_STATUS_SUCCESS;
}

/* Table 8-134. */
enum nkv_cci_status cci_set_alerts(struct firmware* firmware, struct cci_payload payload,
                                   struct cci_answer* answer) {
  (void)answer;
  const uint8_t* in = payload.bytes;
  struct health* health = &firmware->health;
  const int16_t hot = (int16_t)take_number(in + 4, 2);
  const int16_t cold = (int16_t)take_number(in + 6, 2);
  const uint16_t corrected = (uint16_t)take_number(in + 8, 2);
  const unsigned enabled = in[1];
  if ((in[0] & ~ALERTS) != 0 || (enabled & ~(unsigned)in[0]) != 0)
    return NKV_CCI_STATUS_INVALID_INPUT;
  if ((enabled & ALERT_HOT) != 0 && hot > CRITICALLY_HOT_CELSIUS) {
    return NKV_CCI_STATUS_INVALID_INPUT;
  }
  if ((enabled & ALERT_COLD) != 0 && cold < CRITICALLY_COLD_CELSIUS) {
    return NKV_CCI_STATUS_INVALID_INPUT;
  }
  if ((enabled & ALERT_CORRECTED) != 0 && corrected == 0) return NKV_CCI_STATUS_INVALID_INPUT;
  if ((enabled & ALERT_HOT) != 0) health->hot_celsius = hot;
  if ((enabled & ALERT_COLD) != 0) health->cold_celsius = cold;
  if ((enabled & ALERT_CORRECTED) != 0) health->corrected_threshold = corrected;
  health->alerts = (uint8_t)((health->alerts & ~(unsigned)in[0]) | enabled);
  return NKV_CCI_STATUS_SUCCESS;
}
