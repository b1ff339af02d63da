/* Logs: CXL 3.1, 8.2.10.5. There is one, of the commands and what they do. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { ENTRY_BYTES = 4, UUID_BYTES = 16 };

/* 0da9c0b5-bf41-4b78-8f79-96b1623b3f17: the Command Effects Log. */
static const uint8_t command_effects_uuid[UUID_BYTES] = {
    0x0d, 0xa9, 0xc0, 0xb5, 0xbf, 0x41, 0x4b, 0x78, 0x8f, 0x79, 0x96, 0xb1, 0x62, 0x3b, 0x3f, 0x17};

enum nkv_cci_status cci_get_supported_logs(struct firmware* firmware, struct cci_payload payload,
                                           struct cci_answer* answer) {
  (void)firmware;
  (void)payload;
  uint8_t* out = cci_answer_with(answer, 8 + UUID_BYTES + 4);
  put_number(out, 1, 2);
  memcpy(out + 8, command_effects_uuid, UUID_BYTES);
  put_number(out + 8 + UUID_BYTES, cci_command_count * ENTRY_BYTES, 4);
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_log(struct firmware* firmware, struct cci_payload payload,
                                struct cci_answer* answer) {
  (void)firmware;
  const size_t log_bytes = cci_command_count * ENTRY_BYTES;
  const size_t offset = (size_t)take_number(payload.bytes + 16, 4);
  const size_t bytes = (size_t)take_number(payload.bytes + 20, 4);
  if (memcmp(payload.bytes, command_effects_uuid, UUID_BYTES) != 0)
    return NKV_CCI_STATUS_INVALID_LOG;
  if (offset > log_bytes || bytes > log_bytes - offset || bytes > NKV_MAILBOX_BYTES) {
    return NKV_CCI_STATUS_INVALID_INPUT;
  }
  uint8_t* out = cci_answer_with(answer, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    const struct cci_command* command = &cci_commands[(offset + i) / ENTRY_BYTES];
    const uint32_t entry = (uint32_t)command->effects << 16 | command->opcode;
    out[i] = (uint8_t)(entry >> 8 * ((offset + i) % ENTRY_BYTES));
  }
  return NKV_CCI_STATUS_SUCCESS;
}
