/* Timestamp: CXL 3.1, 8.2.10.4. */
#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum nkv_cci_status cci_get_timestamp(struct firmware* firmware, struct cci_payload payload,
                                      struct cci_answer* answer) {
  (void)payload;
  put_number(cci_answer_with(answer, 8), clock_now_ns(&firmware->clock), 8);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_set_timestamp(struct firmware* firmware, struct cci_payload payload,
                                      struct cci_answer* answer) {
  (void)answer;
  clock_set(&firmware->clock, take_number(payload.bytes, 8));
  return NKV_CCI_STATUS_SUCCESS;
}
