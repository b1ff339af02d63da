/* Logs: CXL 3.1, 8.2.10.5. One of the commands and what they do, one of the last panic. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { EFFECT_BYTES = 4, UUID_BYTES = 16, LIST_BYTES = 8, ENTRY_BYTES = UUID_BYTES + 4 };

struct log {
  uint8_t uuid[UUID_BYTES];
  size_t (*size)(const struct firmware* firmware);
  uint8_t (*byte)(const struct firmware* firmware, size_t at);
};

static size_t effects_size(const struct firmware* firmware) {
  return cci_command_count(firmware) * EFFECT_BYTES;
}

static uint8_t effects_byte(const struct firmware* firmware, size_t at) {
  (void)firmware;
  const struct cci_command* command = &cci_commands[at / EFFECT_BYTES];
  const uint32_t entry = (uint32_t)command->effects << 16 | command->opcode;
  return (uint8_t)(entry >> 8 * (at % EFFECT_BYTES));
}

static size_t panic_size(const struct firmware* firmware) {
  (void)firmware;
  return sizeof(struct nkv_firmware_panic);
}

static uint8_t panic_byte(const struct firmware* firmware, size_t at) {
  return ((const uint8_t*)firmware->platform->panic)[at];
}

static const struct log logs[] = {
    /* 0da9c0b5-bf41-4b78-8f79-96b1623b3f17: the Command Effects Log. */
    {.uuid = {0x0d, 0xa9, 0xc0, 0xb5, 0xbf, 0x41, 0x4b, 0x78, 0x8f, 0x79, 0x96, 0xb1, 0x62, 0x3b,
              0x3f, 0x17},
     .size = effects_size,
     .byte = effects_byte},
    /* 5e1819d9-11a9-400c-811f-d60719403d86: the vendor's debug log. */
    {.uuid = {0x5e, 0x18, 0x19, 0xd9, 0x11, 0xa9, 0x40, 0x0c, 0x81, 0x1f, 0xd6, 0x07, 0x19, 0x40,
              0x3d, 0x86},
     .size = panic_size,
     .byte = panic_byte},
};
enum { LOGS = sizeof(logs) / sizeof(logs[0]) };

enum nkv_cci_status cci_get_supported_logs(struct firmware* firmware, struct cci_payload payload,
                                           struct cci_answer* answer) {
  (void)payload;
  uint8_t* out = cci_answer_with(answer, LIST_BYTES + (size_t)LOGS * ENTRY_BYTES);
  put_number(out, LOGS, 2);
  for (size_t i = 0; i < LOGS; ++i) {
    uint8_t* entry = out + LIST_BYTES + i * ENTRY_BYTES;
    memcpy(entry, logs[i].uuid, UUID_BYTES);
    put_number(entry + UUID_BYTES, logs[i].size(firmware), 4);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_log(struct firmware* firmware, struct cci_payload payload,
                                struct cci_answer* answer) {
  const size_t offset = (size_t)take_number(payload.bytes + 16, 4);
  const size_t bytes = (size_t)take_number(payload.bytes + 20, 4);
  const struct log* log = logs;
  while (log < logs + LOGS && memcmp(payload.bytes, log->uuid, UUID_BYTES) != 0) ++log;
  if (log == logs + LOGS) return NKV_CCI_STATUS_INVALID_LOG;
  const size_t size = log->size(firmware);
  if (offset > size || bytes > size - offset || bytes > NKV_MAILBOX_BYTES) {
    return NKV_CCI_STATUS_INVALID_INPUT;
  }
  uint8_t* out = cci_answer_with(answer, bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = log->byte(firmware, offset + i);
  return NKV_CCI_STATUS_SUCCESS;
}
