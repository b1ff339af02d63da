/* Logs: CXL 3.1, 8.2.10.5. Of the commands and what they do, the last panic, and hot units. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum { EFFECT_BYTES = 4, UUID_BYTES = 16, LIST_BYTES = 8, ENTRY_BYTES = UUID_BYTES + 4 };

struct log {
  uint8_t uuid[UUID_BYTES];
  size_t (*size)(const struct firmware* firmware);
  /** Writes `bytes` from `at` on, which are there. */
  void (*put)(const struct firmware* firmware, size_t at, size_t bytes, uint8_t* out);
};

static size_t effects_size(const struct firmware* firmware) {
  return cci_command_count(firmware) * EFFECT_BYTES;
}

static void put_effects(const struct firmware* firmware, size_t at, size_t bytes, uint8_t* out) {
  (void)firmware;
  for (size_t i = at; i < at + bytes; ++i) {
    const struct cci_command* command = &cci_commands[i / EFFECT_BYTES];
    const uint32_t entry = (uint32_t)command->effects << 16 | command->opcode;
    *out++ = (uint8_t)(entry >> 8 * (i % EFFECT_BYTES));
  }
}

static size_t panic_size(const struct firmware* firmware) {
  (void)firmware;
  return sizeof(struct nkv_firmware_panic);
}

static void put_panic(const struct firmware* firmware, size_t at, size_t bytes, uint8_t* out) {
  memcpy(out, (const uint8_t*)firmware->platform->panic + at, bytes);
}

static size_t hotness_size(const struct firmware* firmware) {
  return sizeof(firmware->hotness.lists);
}

static void put_hotness(const struct firmware* firmware, size_t at, size_t bytes, uint8_t* out) {
  memcpy(out, (const uint8_t*)firmware->hotness.lists + at, bytes);
}

static const struct log logs[] = {
    /* 0da9c0b5-bf41-4b78-8f79-96b1623b3f17: the Command Effects Log. */
    [NKV_CARD_LOG_COMMAND_EFFECTS] = {.uuid = {0x0d, 0xa9, 0xc0, 0xb5, 0xbf, 0x41, 0x4b, 0x78, 0x8f,
                                               0x79, 0x96, 0xb1, 0x62, 0x3b, 0x3f, 0x17},
                                      .size = effects_size,
                                      .put = put_effects},
    /* 5e1819d9-11a9-400c-811f-d60719403d86: the vendor's debug log. */
    [NKV_CARD_LOG_PANIC] = {.uuid = {0x5e, 0x18, 0x19, 0xd9, 0x11, 0xa9, 0x40, 0x0c, 0x81, 0x1f,
                                     0xd6, 0x07, 0x19, 0x40, 0x3d, 0x86},
                            .size = panic_size,
                            .put = put_panic},
    /* 4c7d2e90-3b15-4f6a-8e02-6e6561726b76: our own. */
    [NKV_CARD_LOG_HOTNESS] = {.uuid = {0x4c, 0x7d, 0x2e, 0x90, 0x3b, 0x15, 0x4f, 0x6a, 0x8e, 0x02,
                                       0x6e, 0x65, 0x61, 0x72, 0x6b, 0x76},
                              .size = hotness_size,
                              .put = put_hotness},
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
  log->put(firmware, offset, bytes, cci_answer_with(answer, bytes));
  return NKV_CCI_STATUS_SUCCESS;
}
