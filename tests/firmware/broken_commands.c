/* Linked in the place of two commands: GET_HEALTH meets an exception, GET_ALERTS never ends. */
#include "firmware/cci/commands.h"

cci_run __wrap_cci_get_health, __wrap_cci_get_alerts;

enum nkv_cci_status __wrap_cci_get_health(struct firmware* firmware, struct cci_payload payload,
                                          struct cci_answer* answer) {
  (void)firmware;
  (void)payload;
  (void)answer;
  *(volatile uint32_t*)0xDEAD0000 = 1;
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status __wrap_cci_get_alerts(struct firmware* firmware, struct cci_payload payload,
                                          struct cci_answer* answer) {
  (void)firmware;
  (void)payload;
  (void)answer;
  for (;;) {
  }
}
