/* What the memory is: CXL 3.1, 8.2.10.9.1 and 8.2.10.9.2. All of it is volatile; what
   is dynamic capacity counts elsewhere. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { CAPACITY_SHIFT = 28, CAN_INJECT_POISON = 1 << 0 };

static uint64_t static_bytes(const struct platform* platform) {
  return platform->memory_bytes - platform->dynamic_bytes;
}

enum nkv_cci_status cci_identify_memory(struct firmware* firmware, struct cci_payload payload,
                                        struct cci_answer* answer) {
  (void)payload;
  const uint64_t capacity = static_bytes(firmware->platform) >> CAPACITY_SHIFT;
  uint8_t* out = cci_answer_with(answer, 69);
  memcpy(out, FIRMWARE_VERSION, sizeof(FIRMWARE_VERSION) - 1);
  put_number(out + 16, capacity, 8);
  put_number(out + 24, capacity, 8);
  for (unsigned log = 0; log <= EVENT_LOG_FATAL; ++log) {
    put_number(out + 48 + (size_t)log * 2, NKV_EVENT_LOG_RECORDS, 2);
  }
  put_number(out + 60, NKV_POISON_RECORDS, 3);
  put_number(out + 63, NKV_INJECTED_POISON, 2);
  put_number(out + 65, CAN_INJECT_POISON, 1);
  put_number(out + 67, NKV_EVENT_LOG_RECORDS, 2); /* Of dynamic capacity. */
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_partition(struct firmware* firmware, struct cci_payload payload,
                                      struct cci_answer* answer) {
  (void)payload;
  uint8_t* out = cci_answer_with(answer, 32);
  put_number(out, static_bytes(firmware->platform) >> CAPACITY_SHIFT, 8);
  return NKV_CCI_STATUS_SUCCESS;
}
