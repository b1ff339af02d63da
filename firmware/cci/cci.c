#include "firmware/cci/cci.h"

#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

#define COMMAND(name, effects_, least, most, run_)                \
  {.opcode = NKV_CCI_OPCODE_##name,                               \
   .effects = (effects_),                                         \
   .least_bytes = (least),                                        \
   .most_bytes = (most),                                          \
   .needs_media = NKV_CCI_OPCODE_##name >> 8 == MEDIA_AND_POISON, \
   .run = (run_)}

enum { MEDIA_AND_POISON = 0x43 };

/* Dynamic capacity comes last: a card without has only those before. */
const struct cci_command cci_commands[] = {
    COMMAND(IDENTIFY, 0, 0, 0, cci_identify),
    COMMAND(GET_BACKGROUND, 0, 0, 0, cci_get_background),
    COMMAND(ABORT_BACKGROUND, 0, 0, 0, cci_abort_background),
    COMMAND(GET_EVENT_RECORDS, 0, 1, 1, cci_get_event_records),
    COMMAND(CLEAR_EVENT_RECORDS, CCI_CHANGES_LOG, 6, 6 + 2 * UINT8_MAX, cci_clear_event_records),
    COMMAND(GET_EVENT_INTERRUPTS, 0, 0, 0, cci_get_event_interrupts),
    COMMAND(SET_EVENT_INTERRUPTS, CCI_CHANGES_POLICY, EVENT_INTERRUPT_BYTES - 1,
            EVENT_INTERRUPT_BYTES, cci_set_event_interrupts),
    COMMAND(GET_FIRMWARE, 0, 0, 0, cci_get_firmware),
    COMMAND(TRANSFER_FIRMWARE, CCI_IN_BACKGROUND, TRANSFER_HEADER_BYTES, NKV_MAILBOX_BYTES,
            cci_transfer_firmware),
    COMMAND(ACTIVATE_FIRMWARE, CCI_CHANGES_CONFIGURATION | CCI_IN_BACKGROUND, 2, 2,
            cci_activate_firmware),
    COMMAND(GET_TIMESTAMP, 0, 0, 0, cci_get_timestamp),
    COMMAND(SET_TIMESTAMP, CCI_CHANGES_POLICY, 8, 8, cci_set_timestamp),
    COMMAND(GET_SUPPORTED_LOGS, 0, 0, 0, cci_get_supported_logs),
    COMMAND(GET_LOG, 0, 24, 24, cci_get_log),
    COMMAND(GET_SUPPORTED_FEATURES, 0, 8, 8, cci_get_supported_features),
    COMMAND(GET_FEATURE, 0, 21, 21, cci_get_feature),
    COMMAND(SET_FEATURE, CCI_CHANGES_POLICY, 32, 32 + FEATURE_MOST_BYTES, cci_set_feature),
    COMMAND(IDENTIFY_MEMORY, 0, 0, 0, cci_identify_memory),
    COMMAND(GET_PARTITION, 0, 0, 0, cci_get_partition),
    COMMAND(GET_HEALTH, 0, 0, 0, cci_get_health),
    COMMAND(GET_ALERTS, 0, 0, 0, cci_get_alerts),
    COMMAND(SET_ALERTS, CCI_CHANGES_POLICY, 12, 12, cci_set_alerts),
    COMMAND(GET_POISON, 0, 16, 16, cci_get_poison),
    COMMAND(INJECT_POISON, CCI_CHANGES_DATA, 8, 8, cci_inject_poison),
    COMMAND(CLEAR_POISON, CCI_CHANGES_DATA, 8 + LINE_BYTES, 8 + LINE_BYTES, cci_clear_poison),
    COMMAND(GET_SCAN_CAPABILITIES, 0, 16, 16, cci_get_scan_capabilities),
    COMMAND(SCAN_MEDIA, CCI_CHANGES_LOG | CCI_IN_BACKGROUND | CCI_CAN_BE_ABORTED, 17, 17,
            cci_scan_media),
    COMMAND(GET_SCAN_RESULTS, 0, 0, 0, cci_get_scan_results),
    COMMAND(SANITIZE, CCI_CHANGES_DATA | CCI_CHANGES_LOG | CCI_IN_BACKGROUND, 0, 0, cci_sanitize),
    COMMAND(GET_DYNAMIC_CAPACITY, 0, 2, 2, cci_get_dynamic_capacity),
    COMMAND(GET_DYNAMIC_EXTENTS, 0, 8, 8, cci_get_dynamic_extents),
    COMMAND(ADD_DYNAMIC_RESPONSE, CCI_CHANGES_CONFIGURATION, 8, NKV_MAILBOX_BYTES,
            cci_add_dynamic_response),
    COMMAND(RELEASE_DYNAMIC, CCI_CHANGES_CONFIGURATION | CCI_CHANGES_DATA, 8, NKV_MAILBOX_BYTES,
            cci_release_dynamic),
    COMMAND(INITIATE_DYNAMIC_ADD, CCI_CHANGES_LOG, CAPACITY_REQUEST_BYTES, NKV_MAILBOX_BYTES,
            cci_initiate_dynamic_add),
    COMMAND(INITIATE_DYNAMIC_RELEASE,
            CCI_CHANGES_CONFIGURATION | CCI_CHANGES_DATA | CCI_CHANGES_LOG, CAPACITY_REQUEST_BYTES,
            NKV_MAILBOX_BYTES, cci_initiate_dynamic_release),
};

size_t cci_command_count(const struct firmware* firmware) {
  size_t count = sizeof(cci_commands) / sizeof(cci_commands[0]);
  if (capacity_blocks(firmware) > 0) return count;
  while (cci_commands[count - 1].opcode >= NKV_CCI_OPCODE_GET_DYNAMIC_CAPACITY) --count;
  return count;
}

enum nkv_cci_status cci_execute(struct firmware* firmware, uint16_t opcode,
                                struct cci_payload payload, struct cci_answer* answer) {
  const size_t count = cci_command_count(firmware);
  answer->size = 0;
  for (size_t i = 0; i < count; ++i) {
    const struct cci_command* command = &cci_commands[i];
    if (command->opcode != opcode) continue;
    if (payload.size < command->least_bytes || payload.size > command->most_bytes) {
      return NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
    }
    if (command->needs_media && background_is(&firmware->background, NKV_CCI_OPCODE_SANITIZE)) {
      return NKV_CCI_STATUS_MEDIA_DISABLED;
    }
    const enum nkv_cci_status status = command->run(firmware, payload, answer);
    (void)update_trust(firmware);
    return status;
  }
  return NKV_CCI_STATUS_UNSUPPORTED;
}

enum nkv_cci_status cci_take_range(const struct firmware* firmware, struct cci_payload payload,
                                   uint64_t* first, uint64_t* bytes) {
  const uint64_t memory_bytes = firmware->platform->memory_bytes;
  const uint64_t lines = take_number(payload.bytes + 8, 8);
  *first = take_number(payload.bytes, 8);
  if (*first % LINE_BYTES != 0) return NKV_CCI_STATUS_INVALID_INPUT;
  if (*first >= memory_bytes || lines > (memory_bytes - *first) / LINE_BYTES) {
    return NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS;
  }
  *bytes = lines * LINE_BYTES;
  return NKV_CCI_STATUS_SUCCESS;
}

uint8_t* cci_answer_with(struct cci_answer* answer, size_t size) {
  memset(answer->bytes, 0, size);
  answer->size = size;
  return answer->bytes;
}
