/*
 * The Component Command Interface of CXL 3.1, section 8.2.10: a command in, a status and a payload
 * out. Commands and statuses stand in the contract (`cci_opcode`, `cci_status`).
 */
#ifndef NEARKV_FIRMWARE_CCI_H
#define NEARKV_FIRMWARE_CCI_H

#include <stddef.h>

#include "firmware/firmware.h"

struct cci_payload {
  const uint8_t* bytes;
  size_t size;
};

/** What a command answers; a failed one answers nothing. */
struct cci_answer {
  uint8_t bytes[NKV_MAILBOX_BYTES];
  size_t size;
};

/** What a command does besides answering: bits of its entry in the Command Effects Log. */
enum {
  CCI_CHANGES_CONFIGURATION = 1 << 1,
  CCI_CHANGES_DATA = 1 << 2,
  CCI_CHANGES_POLICY = 1 << 3,
  CCI_CHANGES_LOG = 1 << 4,
  CCI_IN_BACKGROUND = 1 << 6,
  CCI_CAN_BE_ABORTED = 1 << 8,
};

struct cci_command {
  uint16_t opcode;
  uint16_t effects;
  uint16_t least_bytes, most_bytes; /**< Of its payload. */
  bool needs_media;                 /**< Refused while the memory is wiped. */
  /** Runs it on a payload of a size that fits, with an answer that is empty. */
  enum nkv_cci_status (*run)(struct firmware* firmware, struct cci_payload payload,
                             struct cci_answer* answer);
};

/** All commands, by opcode. */
extern const struct cci_command cci_commands[];

/** How many of them, from the first on, this card has. */
size_t cci_command_count(const struct firmware* firmware);

/** Runs a command, whatever its opcode and payload. */
enum nkv_cci_status cci_execute(struct firmware* firmware, uint16_t opcode,
                                struct cci_payload payload, struct cci_answer* answer);

/**
 * The range of memory that a payload begins with: an address, a multiple of LINE_BYTES, and a
 * number of lines. INVALID_INPUT, or INVALID_PHYSICAL_ADDRESS if it is not all there.
 */
enum nkv_cci_status cci_take_range(const struct firmware* firmware, struct cci_payload payload,
                                   uint64_t* first, uint64_t* bytes);

/** Gives the answer `size` bytes, zero, and returns the first; there is room. */
uint8_t* cci_answer_with(struct cci_answer* answer, size_t size);

#endif
