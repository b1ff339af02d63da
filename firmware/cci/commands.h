/* The commands of the mailbox, a file for each set. See `struct cci_command`. */
#ifndef NEARKV_FIRMWARE_COMMANDS_H
#define NEARKV_FIRMWARE_COMMANDS_H

#include "firmware/cci/cci.h"

typedef enum nkv_cci_status cci_run(struct firmware* firmware, struct cci_payload payload,
                                    struct cci_answer* answer);

cci_run cci_identify, cci_get_background, cci_abort_background;
cci_run cci_get_event_records, cci_clear_event_records;
cci_run cci_get_event_interrupts, cci_set_event_interrupts;
cci_run cci_get_firmware, cci_transfer_firmware, cci_activate_firmware;
cci_run cci_get_timestamp, cci_set_timestamp;
cci_run cci_get_supported_logs, cci_get_log;
cci_run cci_get_supported_features, cci_get_feature, cci_set_feature;
cci_run cci_identify_memory, cci_get_partition;
cci_run cci_get_health, cci_get_alerts, cci_set_alerts;
cci_run cci_get_poison, cci_inject_poison, cci_clear_poison;
cci_run cci_get_scan_capabilities, cci_scan_media, cci_get_scan_results;
cci_run cci_sanitize;
cci_run cci_get_dynamic_capacity, cci_get_dynamic_extents;
cci_run cci_add_dynamic_response, cci_release_dynamic;
cci_run cci_initiate_dynamic_add, cci_initiate_dynamic_release;

/** Of a log's interrupts: a byte each. */
enum { EVENT_INTERRUPT_BYTES = EVENT_LOGS };

/** Before the extents of a fabric manager's request. */
enum { CAPACITY_REQUEST_BYTES = 32 };

/** Writes an extent of dynamic capacity to EVENT_EXTENT_BYTES that are zero. */
void cci_put_extent(const struct firmware* firmware, const struct capacity_run* run, uint8_t* at);

/** Before the part of an image in the payload of a transfer. */
enum { TRANSFER_HEADER_BYTES = 128 };

#endif
