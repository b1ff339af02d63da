/* Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit. */
#ifndef NKV_CARD_H
#define NKV_CARD_H

#include "nkv_abi.h"
#ifdef __linux__
#include <linux/ioctl.h>
#endif

#ifdef __cplusplus
#define NKV_STATIC_ASSERT(condition, message) static_assert(condition, message)
#else
#define NKV_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#endif
#define NKV_ASSERT_BYTES(name, bytes) \
  NKV_STATIC_ASSERT(sizeof(struct nkv_##name) == (bytes), "size of nkv_" #name)
#define NKV_ASSERT_OFFSET(name, field, bytes) \
  NKV_STATIC_ASSERT(offsetof(struct nkv_##name, field) == (bytes), \
                    "offset of nkv_" #name "." #field)

/* Limits */
/** [vectors] Interrupts of a card's function: vector n is bit n of INTERRUPT_STATUS. */
#define NKV_CARD_VECTORS 19
#define NKV_CARD_OPEN_QUEUES 8 /**< [queues] Most queues of one open file of the driver. */
/**
 * [pages] Where in a file of the driver, in pages of DOORBELL_STRIDE_BYTES, its queues' doorbells
 * are mapped; its window is mapped at 0.
 */
#define NKV_CARD_MAP_DOORBELLS 268435456
/**
 * [ms] How far counts and hot lists that the driver gives to perf may lie back, beside what reading
 * registers takes.
 */
#define NKV_CARD_LAG_MS 20
#define NKV_CARD_NAME_BYTES 32 /**< [bytes] Room for the name of a window that is kept. */
#define NKV_CARD_IOCTL_TYPE 231 /**< Type of the driver's ioctls. */
/** First word of an emulated function's bridge: 'NKVB'. */
#define NKV_CARD_BRIDGE_MAGIC 1112951630
#define NKV_CARD_BRIDGE_VERSION 1 /**< Version of the bridge. Both sides refuse another. */
/** [bytes] Shared memory of an emulated function, its BAR 2; it begins with a `card_bridge`. */
#define NKV_CARD_SHARED_BYTES 65536
/**
 * [bytes] Where behind the engine's registers the firmware's stand: CXL device registers, as its
 * section 8.2.8 lays them out.
 */
#define NKV_CARD_MANAGEMENT_AT 196608
#define NKV_CARD_MANAGEMENT_BYTES 4096 /**< [bytes] Room for them. */
#define NKV_MAILBOX_BYTES 2048 /**< [bytes] Largest payload of the firmware's mailbox. */
/** [bytes] Where the firmware's processor sees its memory; its image begins there. */
#define NKV_PROCESSOR_RAM_AT 1048576
/**
 * [bytes] That memory: the image in its lower half, what it works on above. It ends with a
 * `firmware_share`.
 */
#define NKV_PROCESSOR_RAM_BYTES 131072
#define NKV_PROCESSOR_SHARE_AT 126976 /**< [bytes] Where in it. */
/**
 * [bytes] Where it sees what it cannot write, right behind: the loader, at which it starts, and the
 * firmware that is built in.
 */
#define NKV_PROCESSOR_ROM_AT 1179648
#define NKV_PROCESSOR_ROM_BYTES 65536 /**< [bytes] Both of them. */
/** [bytes] The loader; the image that is built in is the rest. */
#define NKV_PROCESSOR_LOADER_BYTES 20480
/**
 * [bytes] Where it sees the cycles since reset, in two words, read as one from here on to 8 bytes
 * behind: the lower one keeps the upper one still.
 */
#define NKV_PROCESSOR_TIMER_AT 2097152
/**
 * [bytes] A word that the firmware writes: 0 resets the core at once, anything else says that it is
 * alive.
 */
#define NKV_PROCESSOR_WATCHDOG_AT 2097160
/** [cycles] After so many without, the core is reset. Its memory stays as it is. */
#define NKV_PROCESSOR_WATCHDOG_CYCLES 8388608
#define NKV_PROCESSOR_BOOT_AT 126912 /**< [bytes] Where in its memory a `firmware_boot` lies. */
#define NKV_PROCESSOR_PANIC_AT 126944 /**< [bytes] Where in its memory a `firmware_panic` lies. */
/**
 * [bytes] Where in its memory that lies which outlives a restart, up to PROCESSOR_BOOT_AT: who has
 * which dynamic capacity, the tenants' limits, and how the hotness monitors were set.
 */
#define NKV_PROCESSOR_KEPT_AT 125632
#define NKV_PROCESSOR_CYCLE_NS 10 /**< [ns] One cycle of the firmware's processor. */
/** [bytes] Flash memory is erased by blocks, and written by lines of 64 bytes. */
#define NKV_FLASH_BLOCK_BYTES 4096
/** [bytes] All of it: two blocks with a `boot_record` each, then the slots. */
#define NKV_FLASH_BYTES 147456
/** [bytes] Where in it the first slot begins, with a `firmware_image`. */
#define NKV_FLASH_SLOTS_AT 8192
#define NKV_FLASH_SLOT_BYTES 69632 /**< [bytes] Each slot. */
#define NKV_FLASH_SLOTS 2 /**< [slots] Images that it holds, counted from 1. */
/**
 * [starts] Starts that a new image has to answer a command, before the card goes back to the one
 * before.
 */
#define NKV_BOOT_TRIES 3
#define NKV_BOOT_RECORD_MAGIC 1381387086 /**< First word of a boot record: 'NKVR'. */
#define NKV_IMAGE_MAGIC 1230392142 /**< First word of an image of the firmware: 'NKVI'. */
#define NKV_FIRMWARE_MAGIC 1180060494 /**< The firmware runs: 'NKVF'. */
/** [blocks] What dynamic capacity is lent in, at most so many of them. */
#define NKV_CAPACITY_BLOCKS 256
/** [bytes] How small a block is at least; its size is a power of two. */
#define NKV_CAPACITY_BLOCK_LEAST_BYTES 2097152
#define NKV_CARD_TENANTS 16 /**< [tenants] Users of a card whose limits its firmware keeps. */
/** [tags] Tags of dynamic capacity at a time; one of them is that of zeros. */
#define NKV_CAPACITY_TAGS 16
/** [units] Hot units that the firmware keeps of an epoch, of each monitor. */
#define NKV_HOTNESS_UNITS 64
#define NKV_HOTNESS_EPOCH_MS 4095 /**< [ms] The longest epoch that it counts in. */
#define NKV_EVENT_LOG_RECORDS 32 /**< [records] Events that each of the firmware's logs holds. */
#define NKV_POISON_RECORDS 256 /**< [lines] Poisoned 64-byte lines that the firmware lists. */
/** [lines] Poisoned lines that a scan of the memory tells; it stops at one more. */
#define NKV_SCAN_RECORDS 128
#define NKV_INJECTED_POISON 64 /**< [lines] Most of them that hosts may have injected. */

/** What the driver asks for over the bridge of an emulated function. */
enum nkv_card_operation {
  NKV_CARD_OPERATION_READ = 1, /**< `value` of the register at `address`. */
  NKV_CARD_OPERATION_WRITE = 2, /**< The register at `address` becomes `value`. */
  NKV_CARD_OPERATION_WIPE = 3, /**< `bytes` of device memory from `address` on become zero. */
};

/** Commands of the firmware's mailbox; CXL 3.1, section 8.2.10. */
enum nkv_cci_opcode {
  NKV_CCI_OPCODE_IDENTIFY = 1, /**< What the component is. */
  NKV_CCI_OPCODE_GET_BACKGROUND = 2, /**< How far the operation in the background is. */
  NKV_CCI_OPCODE_ABORT_BACKGROUND = 5, /**< End it. */
  NKV_CCI_OPCODE_GET_EVENT_RECORDS = 256, /**< The oldest events of a log. */
  NKV_CCI_OPCODE_CLEAR_EVENT_RECORDS = 257, /**< Forget events that were read. */
  NKV_CCI_OPCODE_GET_EVENT_INTERRUPTS = 258, /**< How each log interrupts. */
  NKV_CCI_OPCODE_SET_EVENT_INTERRUPTS = 259, /**< Say so. */
  NKV_CCI_OPCODE_GET_FIRMWARE = 512, /**< The slots, and what they hold. */
  NKV_CCI_OPCODE_TRANSFER_FIRMWARE = 513, /**< A part of an image, or all of it. */
  NKV_CCI_OPCODE_ACTIVATE_FIRMWARE = 514, /**< Start an image, now or with the next reset. */
  NKV_CCI_OPCODE_GET_TIMESTAMP = 768, /**< Nanoseconds since 1970; 0 before it was set. */
  NKV_CCI_OPCODE_SET_TIMESTAMP = 769, /**< Set them. */
  NKV_CCI_OPCODE_GET_SUPPORTED_LOGS = 1024, /**< The logs there are. */
  NKV_CCI_OPCODE_GET_LOG = 1025, /**< A part of a log. */
  NKV_CCI_OPCODE_GET_SUPPORTED_FEATURES = 1280, /**< The features there are. */
  NKV_CCI_OPCODE_GET_FEATURE = 1281, /**< A part of one. */
  NKV_CCI_OPCODE_SET_FEATURE = 1282, /**< Set one, whole or in parts. */
  NKV_CCI_OPCODE_IDENTIFY_MEMORY = 16384, /**< Capacity, and sizes of logs and lists. */
  NKV_CCI_OPCODE_GET_PARTITION = 16640, /**< How much is volatile. */
  NKV_CCI_OPCODE_GET_HEALTH = 16896, /**< Health, temperature, corrected errors. */
  NKV_CCI_OPCODE_GET_ALERTS = 16897, /**< When health is told of. */
  NKV_CCI_OPCODE_SET_ALERTS = 16898, /**< Say so. */
  NKV_CCI_OPCODE_GET_POISON = 17152, /**< Poisoned lines of a range. */
  NKV_CCI_OPCODE_INJECT_POISON = 17153, /**< Poison a line. */
  NKV_CCI_OPCODE_CLEAR_POISON = 17154, /**< Write a line, which then is no longer poisoned. */
  NKV_CCI_OPCODE_GET_SCAN_CAPABILITIES = 17155, /**< How long a scan of a range takes. */
  NKV_CCI_OPCODE_SCAN_MEDIA = 17156, /**< Look for poison in a range, in the background. */
  NKV_CCI_OPCODE_GET_SCAN_RESULTS = 17157, /**< What the last scan found. */
  NKV_CCI_OPCODE_SANITIZE = 17408, /**< Wipe all of the memory, in the background. */
  NKV_CCI_OPCODE_GET_DYNAMIC_CAPACITY = 18432, /**< The regions of dynamic capacity. */
  NKV_CCI_OPCODE_GET_DYNAMIC_EXTENTS = 18433, /**< What of it the host has. */
  NKV_CCI_OPCODE_ADD_DYNAMIC_RESPONSE = 18434, /**< Accept what was offered, or a part of it. */
  NKV_CCI_OPCODE_RELEASE_DYNAMIC = 18435, /**< Give some of it back. */
  NKV_CCI_OPCODE_INITIATE_DYNAMIC_ADD = 22020, /**< A fabric manager offers the host capacity. */
  NKV_CCI_OPCODE_INITIATE_DYNAMIC_RELEASE = 22021, /**< It asks for some back, or takes it. */
};

/** How a command of the mailbox ended; CXL 3.1, table 8-34. */
enum nkv_cci_status {
  NKV_CCI_STATUS_SUCCESS = 0, /**< Done. */
  NKV_CCI_STATUS_BACKGROUND_STARTED = 1, /**< It goes on in the background. */
  NKV_CCI_STATUS_INVALID_INPUT = 2, /**< A field has a value that it may not have. */
  NKV_CCI_STATUS_UNSUPPORTED = 3, /**< No such command. */
  NKV_CCI_STATUS_INTERNAL_ERROR = 4, /**< The card failed. */
  NKV_CCI_STATUS_RETRY_REQUIRED = 5, /**< Not now: the host has not answered what it was offered. */
  NKV_CCI_STATUS_BUSY = 6, /**< Another operation runs in the background. */
  NKV_CCI_STATUS_MEDIA_DISABLED = 7, /**< The memory is being wiped. */
  NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS = 8, /**< Parts of an image are there already. */
  NKV_CCI_STATUS_FIRMWARE_TRANSFER_OUT_OF_ORDER = 9, /**< Not the part that follows. */
  /** The image is not whole, or not signed by whom the card trusts. */
  NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED = 10,
  /** No such slot, or the one that runs, or one without an image. */
  NKV_CCI_STATUS_INVALID_SLOT = 11,
  /** The new image did not come up: the one before runs. */
  NKV_CCI_STATUS_FIRMWARE_ROLLED_BACK = 12,
  NKV_CCI_STATUS_INVALID_HANDLE = 14, /**< Not the handle of the oldest event. */
  NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS = 15, /**< Outside the memory. */
  NKV_CCI_STATUS_INJECT_POISON_LIMIT = 16, /**< INJECTED_POISON lines are. */
  NKV_CCI_STATUS_ABORTED = 18, /**< The host ended it. */
  /** The payload is longer or shorter than the command's. */
  NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH = 22,
  NKV_CCI_STATUS_INVALID_LOG = 23, /**< No such log. */
  NKV_CCI_STATUS_UNSUPPORTED_FEATURE_VERSION = 25, /**< Of another version. */
  NKV_CCI_STATUS_UNSUPPORTED_FEATURE_SELECTION = 26, /**< Only its current value can be had. */
  NKV_CCI_STATUS_FEATURE_TRANSFER_IN_PROGRESS = 27, /**< Parts of a feature are there already. */
  NKV_CCI_STATUS_FEATURE_TRANSFER_OUT_OF_ORDER = 28, /**< Not the part that follows. */
  /** Too little free capacity, tags, or room for events. */
  NKV_CCI_STATUS_RESOURCES_EXHAUSTED = 29,
  NKV_CCI_STATUS_INVALID_EXTENT_LIST = 30, /**< Not whole blocks, or some twice. */
  /** The operation in the background cannot be ended. */
  NKV_CCI_STATUS_REQUEST_ABORT_NOT_SUPPORTED = 32,
};

/** Which part of an image or of a feature a command carries. */
enum nkv_cci_transfer {
  NKV_CCI_TRANSFER_FULL = 0, /**< All of it. */
  NKV_CCI_TRANSFER_INITIATE = 1, /**< The first. */
  NKV_CCI_TRANSFER_CONTINUE = 2, /**< One between. */
  NKV_CCI_TRANSFER_END = 3, /**< The last. */
  NKV_CCI_TRANSFER_ABORT = 4, /**< None: those that came are forgotten. */
};

/** Features of the firmware, by their indices in its list of them. */
enum nkv_card_feature {
  NKV_CARD_FEATURE_SCRUB = 0, /**< Device patrol scrub control. */
  NKV_CARD_FEATURE_SHARING = 1, /**< Registers INLINE_CONTROL, INLINE_LIMITS and INLINE_LOAD. */
  /** What users may have of the card: CARD_TENANTS times `card_tenant`, each owner once. */
  NKV_CARD_FEATURE_TENANTS = 2,
  /**
   * What the firmware counts while no host does: a `hotness_setting` of each `card_monitor`, and
   * behind them, to be read only, a `hotness_status` of each.
   */
  NKV_CARD_FEATURE_HOTNESS = 3,
};

/** Whose entry a `card_tenant` is. */
enum nkv_card_tenant_kind {
  NKV_CARD_TENANT_KIND_NONE = 0, /**< Nobody's, and all of it zero. */
  NKV_CARD_TENANT_KIND_USER = 1, /**< A user's. */
  NKV_CARD_TENANT_KIND_OTHERS = 2, /**< That of all users who have none of their own. */
};

/** Logs of the firmware, by their indices in its list of them. */
enum nkv_card_log {
  NKV_CARD_LOG_COMMAND_EFFECTS = 0, /**< The commands, and what they do. */
  NKV_CARD_LOG_PANIC = 1, /**< The vendor's debug log: a `firmware_panic`. */
  NKV_CARD_LOG_HOTNESS = 2, /**< A `hotness_list` of each `card_monitor`. */
};

/** What the firmware asks of the logic around its processor. */
enum nkv_firmware_operation {
  NKV_FIRMWARE_OPERATION_POISON = 1, /**< The line at `operation_at` answers with poison. */
  NKV_FIRMWARE_OPERATION_WRITE = 2, /**< It becomes `line`. */
  /**
   * `operation_bytes` of device memory from `operation_at` on are read; `operation_at` is then the
   * first line that is poisoned, or where they end.
   */
  NKV_FIRMWARE_OPERATION_CHECK = 3,
  /** `operation_bytes` of device memory from `operation_at` on become zero. */
  NKV_FIRMWARE_OPERATION_WIPE = 4,
  /** `line` begins with the engine's register at `operation_at`. */
  NKV_FIRMWARE_OPERATION_READ_REGISTER = 5,
  NKV_FIRMWARE_OPERATION_WRITE_REGISTER = 6, /**< It becomes the 8 bytes that `line` begins with. */
  NKV_FIRMWARE_OPERATION_READ_FLASH = 7, /**< `line` is that of flash memory at `operation_at`. */
  NKV_FIRMWARE_OPERATION_WRITE_FLASH = 8, /**< Bits of that line that are 0 in `line` become 0. */
  /** Bits of the block of flash memory at `operation_at` become 1. */
  NKV_FIRMWARE_OPERATION_ERASE_FLASH = 9,
};

/** Events of the perf PMU `nearkvN`, as `config`: sums over all queues. */
enum nkv_card_counter {
  NKV_CARD_COUNTER_COMMANDS = 0, /**< TOTAL_COMMANDS. */
  NKV_CARD_COUNTER_STREAM_BURSTS = 1, /**< TOTAL_STREAM_BURSTS. */
  NKV_CARD_COUNTER_REFINE_BURSTS = 2, /**< TOTAL_REFINE_BURSTS. */
  NKV_CARD_COUNTER_EXACT_BURSTS = 3, /**< TOTAL_EXACT_BURSTS. */
  NKV_CARD_COUNTER_VALUE_BURSTS = 4, /**< TOTAL_VALUE_BURSTS. */
  NKV_CARD_COUNTER_WRITTEN_BURSTS = 5, /**< TOTAL_WRITTEN_BURSTS. */
  NKV_CARD_COUNTER_BUSY_TICKS = 6, /**< TOTAL_BUSY_TICKS. */
};

/** Hotness monitors. */
enum nkv_card_monitor {
  NKV_CARD_MONITOR_HOST = 0, /**< HOST_HOTNESS. */
  NKV_CARD_MONITOR_NEAR = 1, /**< NEAR_HOTNESS. */
};

/** What the firmware does with a monitor. */
enum nkv_hotness_state {
  NKV_HOTNESS_STATE_OFF = 0, /**< Nothing: it is not to. */
  NKV_HOTNESS_STATE_STARTING = 1, /**< It sets it up. */
  NKV_HOTNESS_STATE_COUNTING = 2, /**< It takes its hot list. */
  /** Nothing, as somebody on the host has it; it goes on when the monitor is disabled. */
  NKV_HOTNESS_STATE_HOST = 3,
  NKV_HOTNESS_STATE_UNFIT = 4, /**< Nothing: the monitor cannot count as it is set. */
  /** None that it knows answers, or it does not do as it is told; it tries again each second. */
  NKV_HOTNESS_STATE_ABSENT = 5,
};

/** How a window is had. */
/**
 * It outlives the file, under its name, for the user who made it; without, it goes with the file.
 */
#define NKV_CARD_WINDOW_FLAG_KEEP (1u << 0)
#define NKV_CARD_WINDOW_FLAG_MUST_EXIST (1u << 1) /**< Only one that was kept. */
#define NKV_CARD_WINDOW_FLAG_ALL 0x3u

/**
 * What the firmware shares with the logic around its processor. Who wants something fills it in,
 * then counts up; who did it writes down the same count.
 */
struct nkv_firmware_share {
  uint32_t magic; /**< FIRMWARE_MAGIC, written last when the firmware starts. */
  uint32_t temperature_celsius; /**< Of the card, two's complement. */
  uint64_t memory_bytes; /**< Device memory; there before the firmware starts. */
  uint64_t serial; /**< Serial number of the card; so too. */
  uint64_t dynamic_bytes; /**< How much of the memory, at its end, is dynamic capacity; so too. */
  uint32_t request; /**< Commands that the mailbox was given. */
  uint32_t answer; /**< Commands that it answered. */
  uint16_t opcode; /**< The command. [a value of cci_opcode] */
  uint16_t status; /**< How it ended. [a value of cci_status] */
  uint32_t payload_bytes; /**< Of the command, then of its answer. */
  uint32_t errors; /**< Errors that the memory controller found. */
  uint32_t errors_taken; /**< Errors that the firmware took; the next may then be written. */
  uint64_t error_address; /**< The line. */
  uint32_t error_corrected; /**< 1: by ECC. 0: it is poisoned. */
  uint32_t interrupts; /**< Interrupts of the mailbox that the firmware raised. */
  uint32_t interrupt_message; /**< The last one's message. */
  uint32_t operation; /**< A `firmware_operation`. */
  uint32_t operations; /**< Operations that the firmware asked for. */
  uint32_t operations_done; /**< Operations that ended. */
  uint32_t operation_failed; /**< 1: the last one did. */
  uint32_t operation_bytes; /**< How much, where an operation says so. */
  uint64_t operation_at; /**< Where: of lines, their address in device memory. */
  uint32_t event_logs; /**< Logs that hold events: a bit each. */
  uint32_t background_runs; /**< 1: an operation in the background does. */
  uint64_t background; /**< The mailbox's background command status register. */
  uint8_t line[64]; /**< What is written, or was read. */
  uint8_t payload[2048]; /**< Of the mailbox: MAILBOX_BYTES. */
};
#define NKV_FIRMWARE_SHARE_BYTES 2232
NKV_ASSERT_BYTES(firmware_share, 2232);
NKV_ASSERT_OFFSET(firmware_share, magic, 0);
NKV_ASSERT_OFFSET(firmware_share, temperature_celsius, 4);
NKV_ASSERT_OFFSET(firmware_share, memory_bytes, 8);
NKV_ASSERT_OFFSET(firmware_share, serial, 16);
NKV_ASSERT_OFFSET(firmware_share, dynamic_bytes, 24);
NKV_ASSERT_OFFSET(firmware_share, request, 32);
NKV_ASSERT_OFFSET(firmware_share, answer, 36);
NKV_ASSERT_OFFSET(firmware_share, opcode, 40);
NKV_ASSERT_OFFSET(firmware_share, status, 42);
NKV_ASSERT_OFFSET(firmware_share, payload_bytes, 44);
NKV_ASSERT_OFFSET(firmware_share, errors, 48);
NKV_ASSERT_OFFSET(firmware_share, errors_taken, 52);
NKV_ASSERT_OFFSET(firmware_share, error_address, 56);
NKV_ASSERT_OFFSET(firmware_share, error_corrected, 64);
NKV_ASSERT_OFFSET(firmware_share, interrupts, 68);
NKV_ASSERT_OFFSET(firmware_share, interrupt_message, 72);
NKV_ASSERT_OFFSET(firmware_share, operation, 76);
NKV_ASSERT_OFFSET(firmware_share, operations, 80);
NKV_ASSERT_OFFSET(firmware_share, operations_done, 84);
NKV_ASSERT_OFFSET(firmware_share, operation_failed, 88);
NKV_ASSERT_OFFSET(firmware_share, operation_bytes, 92);
NKV_ASSERT_OFFSET(firmware_share, operation_at, 96);
NKV_ASSERT_OFFSET(firmware_share, event_logs, 104);
NKV_ASSERT_OFFSET(firmware_share, background_runs, 108);
NKV_ASSERT_OFFSET(firmware_share, background, 112);
NKV_ASSERT_OFFSET(firmware_share, line, 120);
NKV_ASSERT_OFFSET(firmware_share, payload, 184);

/** What the firmware's last exception was, kept over resets of the core: the vendor's debug log. */
struct nkv_firmware_panic {
  uint32_t panics; /**< Exceptions since the image was loaded. */
  uint32_t starts; /**< Starts of the firmware since then. */
  uint32_t cause; /**< Register mcause. */
  uint32_t address; /**< Register mepc: where. */
  uint32_t value; /**< Register mtval: of what, as the cause says. */
  uint32_t return_address; /**< Register ra. */
  uint32_t stack_pointer; /**< Register sp. */
  uint32_t reserved; /**< Zero. */
};
#define NKV_FIRMWARE_PANIC_BYTES 32
NKV_ASSERT_BYTES(firmware_panic, 32);
NKV_ASSERT_OFFSET(firmware_panic, panics, 0);
NKV_ASSERT_OFFSET(firmware_panic, starts, 4);
NKV_ASSERT_OFFSET(firmware_panic, cause, 8);
NKV_ASSERT_OFFSET(firmware_panic, address, 12);
NKV_ASSERT_OFFSET(firmware_panic, value, 16);
NKV_ASSERT_OFFSET(firmware_panic, return_address, 20);
NKV_ASSERT_OFFSET(firmware_panic, stack_pointer, 24);
NKV_ASSERT_OFFSET(firmware_panic, reserved, 28);

/** What a user of the card may have, of all its files together. The driver holds users to it. */
struct nkv_card_tenant {
  uint32_t owner; /**< USER: its number on the host. */
  uint16_t queues; /**< Most queues. [at most MAX_QUEUES] */
  /** Largest WEIGHT of a queue, and that of one which asks for none. [at most 15] */
  uint8_t weight;
  uint8_t kind; /**< Whose entry it is. [a value of card_tenant_kind] */
  uint64_t window_bytes; /**< Most bytes of its windows, kept ones among them. */
};
#define NKV_CARD_TENANT_BYTES 16
NKV_ASSERT_BYTES(card_tenant, 16);
NKV_ASSERT_OFFSET(card_tenant, owner, 0);
NKV_ASSERT_OFFSET(card_tenant, queues, 4);
NKV_ASSERT_OFFSET(card_tenant, weight, 6);
NKV_ASSERT_OFFSET(card_tenant, kind, 7);
NKV_ASSERT_OFFSET(card_tenant, window_bytes, 8);

/** What the loader tells the firmware that it starts. */
struct nkv_firmware_boot {
  uint32_t slot; /**< Where the image comes from; 0: it is built in. */
  uint32_t staged; /**< 1: it is new, and has still to be found good. */
  uint32_t rolled_back; /**< 1: a newer one was not. */
  uint32_t has_flash; /**< 1: the card has flash memory. */
  uint8_t reserved[16]; /**< Zero. */
};
#define NKV_FIRMWARE_BOOT_BYTES 32
NKV_ASSERT_BYTES(firmware_boot, 32);
NKV_ASSERT_OFFSET(firmware_boot, slot, 0);
NKV_ASSERT_OFFSET(firmware_boot, staged, 4);
NKV_ASSERT_OFFSET(firmware_boot, rolled_back, 8);
NKV_ASSERT_OFFSET(firmware_boot, has_flash, 12);
NKV_ASSERT_OFFSET(firmware_boot, reserved, 16);

/**
 * An image of the firmware, as files and slots begin with; the image itself follows. The signature
 * is Monocypher's EdDSA over all before it: the curve and the equation of Ed25519, with BLAKE2b in
 * the place of SHA-512.
 */
struct nkv_firmware_image {
  uint32_t magic; /**< IMAGE_MAGIC. */
  uint32_t bytes; /**< Of the image. */
  uint8_t revision[16]; /**< What it calls itself, filled up with zeros. */
  uint8_t reserved[40]; /**< Zero. */
  uint8_t digest[64]; /**< BLAKE2b of the image. */
  uint8_t signature[64]; /**< Of the 128 bytes before. */
};
#define NKV_FIRMWARE_IMAGE_BYTES 192
NKV_ASSERT_BYTES(firmware_image, 192);
NKV_ASSERT_OFFSET(firmware_image, magic, 0);
NKV_ASSERT_OFFSET(firmware_image, bytes, 4);
NKV_ASSERT_OFFSET(firmware_image, revision, 8);
NKV_ASSERT_OFFSET(firmware_image, reserved, 24);
NKV_ASSERT_OFFSET(firmware_image, digest, 64);
NKV_ASSERT_OFFSET(firmware_image, signature, 128);

/**
 * Which image starts. The newer of two holds that is whole; the older one's block is erased to
 * write the next.
 */
struct nkv_boot_record {
  uint32_t magic; /**< BOOT_RECORD_MAGIC. */
  uint32_t generation; /**< Counts records. */
  uint32_t slot; /**< The image's; 0: what is built in. */
  uint32_t trusted; /**< The last one's that was found good: where the card goes back to. */
  uint32_t tries; /**< Starts that are left to an image that is not trusted yet. */
  uint32_t rolled_back; /**< 1: `slot` is what the card went back to. */
  uint8_t reserved[8]; /**< Zero. */
  uint8_t digest[32]; /**< BLAKE2b of all before it. */
};
#define NKV_BOOT_RECORD_BYTES 64
NKV_ASSERT_BYTES(boot_record, 64);
NKV_ASSERT_OFFSET(boot_record, magic, 0);
NKV_ASSERT_OFFSET(boot_record, generation, 4);
NKV_ASSERT_OFFSET(boot_record, slot, 8);
NKV_ASSERT_OFFSET(boot_record, trusted, 12);
NKV_ASSERT_OFFSET(boot_record, tries, 16);
NKV_ASSERT_OFFSET(boot_record, rolled_back, 20);
NKV_ASSERT_OFFSET(boot_record, reserved, 24);
NKV_ASSERT_OFFSET(boot_record, digest, 32);

/** How the firmware is to count by a monitor. */
struct nkv_hotness_setting {
  uint8_t enabled; /**< 1: it counts while no host has the monitor. */
  uint8_t unit_log2; /**< Log2 of a unit's bytes. */
  uint16_t epoch_ms; /**< Length of an epoch: 1 to HOTNESS_EPOCH_MS. */
  /**
   * Hot units that it wants of an epoch, up to HOTNESS_UNITS: the threshold is doubled on more than
   * twice as many, and halved on less than half.
   */
  uint16_t units;
  uint16_t reserved; /**< Zero. */
};
#define NKV_HOTNESS_SETTING_BYTES 8
NKV_ASSERT_BYTES(hotness_setting, 8);
NKV_ASSERT_OFFSET(hotness_setting, enabled, 0);
NKV_ASSERT_OFFSET(hotness_setting, unit_log2, 1);
NKV_ASSERT_OFFSET(hotness_setting, epoch_ms, 2);
NKV_ASSERT_OFFSET(hotness_setting, units, 4);
NKV_ASSERT_OFFSET(hotness_setting, reserved, 6);

/** What has become of it. */
struct nkv_hotness_status {
  uint8_t state; /**< Now. [a value of hotness_state] */
  uint8_t reserved[3]; /**< Zero. */
  uint32_t threshold; /**< Accesses in an epoch from which on a unit is hot now. */
};
#define NKV_HOTNESS_STATUS_BYTES 8
NKV_ASSERT_BYTES(hotness_status, 8);
NKV_ASSERT_OFFSET(hotness_status, state, 0);
NKV_ASSERT_OFFSET(hotness_status, reserved, 1);
NKV_ASSERT_OFFSET(hotness_status, threshold, 4);

/**
 * Hot units of the last whole epoch, in the order in which they came to the threshold: mostly the
 * hottest first.
 */
struct nkv_hotness_list {
  uint8_t state; /**< Now. [a value of hotness_state] */
  uint8_t unit_log2; /**< Log2 of a unit's bytes. */
  uint16_t epoch_ms; /**< Length of the epoch. */
  uint32_t threshold; /**< Accesses in it from which on a unit was hot. */
  uint32_t epochs; /**< Counts whole epochs since the setting; 0: there was none yet. */
  uint16_t listed; /**< Entries of the monitor's list. */
  uint16_t units; /**< The first of them, that are kept. */
  uint8_t has_lost; /**< 1: the monitor had no room for more. */
  uint8_t reserved[7]; /**< Zero. */
  /** When the epoch ended, in nanoseconds since 1970; 0: the card was not told the time. */
  uint64_t end_ns;
  uint64_t addresses[NKV_HOTNESS_UNITS]; /**< In device memory; those behind `units` are zero. */
};
#define NKV_HOTNESS_LIST_BYTES 544
NKV_ASSERT_BYTES(hotness_list, 544);
NKV_ASSERT_OFFSET(hotness_list, state, 0);
NKV_ASSERT_OFFSET(hotness_list, unit_log2, 1);
NKV_ASSERT_OFFSET(hotness_list, epoch_ms, 2);
NKV_ASSERT_OFFSET(hotness_list, threshold, 4);
NKV_ASSERT_OFFSET(hotness_list, epochs, 8);
NKV_ASSERT_OFFSET(hotness_list, listed, 12);
NKV_ASSERT_OFFSET(hotness_list, units, 14);
NKV_ASSERT_OFFSET(hotness_list, has_lost, 16);
NKV_ASSERT_OFFSET(hotness_list, reserved, 17);
NKV_ASSERT_OFFSET(hotness_list, end_ns, 24);
NKV_ASSERT_OFFSET(hotness_list, addresses, 32);

/**
 * Begins the shared memory of an emulated function. The driver fills in what it wants, then counts
 * `request` up; the device answers, then writes the same count to `answer`.
 */
struct nkv_card_bridge {
  uint32_t magic; /**< CARD_BRIDGE_MAGIC, written last when the device starts. */
  uint32_t version; /**< CARD_BRIDGE_VERSION. */
  uint64_t serial; /**< Serial number of the CXL device whose memory the engine works on. */
  uint64_t heartbeat; /**< Counts while the device is alive. */
  uint32_t request; /**< The driver's count. */
  uint32_t answer; /**< The device's. */
  uint8_t operation; /**< What is wanted. [a value of card_operation] */
  uint8_t reserved[7]; /**< Zero. */
  uint64_t address; /**< Of a register, or in device memory. */
  uint64_t value; /**< Of the register. */
  uint64_t bytes; /**< WIPE: how many. */
};
#define NKV_CARD_BRIDGE_BYTES 64
NKV_ASSERT_BYTES(card_bridge, 64);
NKV_ASSERT_OFFSET(card_bridge, magic, 0);
NKV_ASSERT_OFFSET(card_bridge, version, 4);
NKV_ASSERT_OFFSET(card_bridge, serial, 8);
NKV_ASSERT_OFFSET(card_bridge, heartbeat, 16);
NKV_ASSERT_OFFSET(card_bridge, request, 24);
NKV_ASSERT_OFFSET(card_bridge, answer, 28);
NKV_ASSERT_OFFSET(card_bridge, operation, 32);
NKV_ASSERT_OFFSET(card_bridge, reserved, 33);
NKV_ASSERT_OFFSET(card_bridge, address, 40);
NKV_ASSERT_OFFSET(card_bridge, value, 48);
NKV_ASSERT_OFFSET(card_bridge, bytes, 56);

/** A card as its driver sees it. */
struct nkv_card_info {
  uint64_t serial; /**< Of the CXL device; 0 if the function does not tell. */
  uint64_t features; /**< Register FEATURES. */
  uint64_t limits; /**< Register LIMITS, with QUEUES those that one file may have. */
  uint64_t codecs; /**< Register CODECS. */
  uint64_t tick_hz; /**< Register TICK_HZ. */
  uint64_t memory_bytes; /**< Device memory for windows; 0 while none is attached. */
  uint64_t free_bytes; /**< Of it, what no window has. */
  uint16_t abi_major; /**< Of register ABI. */
  uint16_t abi_minor; /**< Of register ABI. */
  uint8_t free_queues; /**< Queues that nobody has. */
  uint8_t reserved[3]; /**< Zero. */
};
#define NKV_CARD_INFO_BYTES 64
NKV_ASSERT_BYTES(card_info, 64);
NKV_ASSERT_OFFSET(card_info, serial, 0);
NKV_ASSERT_OFFSET(card_info, features, 8);
NKV_ASSERT_OFFSET(card_info, limits, 16);
NKV_ASSERT_OFFSET(card_info, codecs, 24);
NKV_ASSERT_OFFSET(card_info, tick_hz, 32);
NKV_ASSERT_OFFSET(card_info, memory_bytes, 40);
NKV_ASSERT_OFFSET(card_info, free_bytes, 48);
NKV_ASSERT_OFFSET(card_info, abi_major, 56);
NKV_ASSERT_OFFSET(card_info, abi_minor, 58);
NKV_ASSERT_OFFSET(card_info, free_queues, 60);
NKV_ASSERT_OFFSET(card_info, reserved, 61);

/** A file's part of device memory. A new one reads as zeros. */
struct nkv_card_window {
  /** Wanted, a multiple of the page size; 0: what the kept one has. Then what it has. */
  uint64_t bytes;
  uint32_t flags; /**< How. [flags of card_window_flag] */
  uint32_t reserved; /**< Zero. */
  uint8_t name[NKV_CARD_NAME_BYTES]; /**< Of one that is kept, filled up with zeros; else zero. */
};
#define NKV_CARD_WINDOW_BYTES 48
NKV_ASSERT_BYTES(card_window, 48);
NKV_ASSERT_OFFSET(card_window, bytes, 0);
NKV_ASSERT_OFFSET(card_window, flags, 8);
NKV_ASSERT_OFFSET(card_window, reserved, 12);
NKV_ASSERT_OFFSET(card_window, name, 16);

/** A queue of a file. Addresses count from the start of the file's window. */
struct nkv_card_queue {
  uint32_t index; /**< The file's, below CARD_OPEN_QUEUES. */
  uint32_t ring_entries; /**< RING_ENTRIES. */
  uint64_t sq_base; /**< SQ_BASE. */
  uint64_t cq_base; /**< CQ_BASE. */
  uint64_t window_base; /**< WINDOW_BASE. */
  uint64_t window_bytes; /**< WINDOW_BYTES. */
  uint32_t coalesce_ticks; /**< COALESCE.WAIT_TICKS. */
  uint16_t coalesce_completions; /**< COALESCE.COMPLETIONS. */
  uint16_t tenant; /**< TENANT. */
  /**
   * WEIGHT.SHARE; above the user's `card_tenant.weight`, or above 1 if it has none, for who has
   * CAP_SYS_NICE; 0: as large as that. Then what it has.
   */
  uint8_t weight;
  uint8_t reserved[7]; /**< Zero. */
};
#define NKV_CARD_QUEUE_BYTES 56
NKV_ASSERT_BYTES(card_queue, 56);
NKV_ASSERT_OFFSET(card_queue, index, 0);
NKV_ASSERT_OFFSET(card_queue, ring_entries, 4);
NKV_ASSERT_OFFSET(card_queue, sq_base, 8);
NKV_ASSERT_OFFSET(card_queue, cq_base, 16);
NKV_ASSERT_OFFSET(card_queue, window_base, 24);
NKV_ASSERT_OFFSET(card_queue, window_bytes, 32);
NKV_ASSERT_OFFSET(card_queue, coalesce_ticks, 40);
NKV_ASSERT_OFFSET(card_queue, coalesce_completions, 44);
NKV_ASSERT_OFFSET(card_queue, tenant, 46);
NKV_ASSERT_OFFSET(card_queue, weight, 48);
NKV_ASSERT_OFFSET(card_queue, reserved, 49);

/** What a queue of a file has done. */
struct nkv_card_queue_state {
  uint32_t index; /**< The file's. */
  uint32_t reserved; /**< Zero. */
  uint64_t status; /**< QUEUE_STATUS. */
  uint64_t commands; /**< TOTAL_COMMANDS; this and the others since the queue was started. */
  uint64_t stream_bursts; /**< TOTAL_STREAM_BURSTS. */
  uint64_t refine_bursts; /**< TOTAL_REFINE_BURSTS. */
  uint64_t exact_bursts; /**< TOTAL_EXACT_BURSTS. */
  uint64_t value_bursts; /**< TOTAL_VALUE_BURSTS. */
  uint64_t written_bursts; /**< TOTAL_WRITTEN_BURSTS. */
  uint64_t busy_ticks; /**< TOTAL_BUSY_TICKS. */
  uint64_t interrupts; /**< That the driver has had for it. */
};
#define NKV_CARD_QUEUE_STATE_BYTES 80
NKV_ASSERT_BYTES(card_queue_state, 80);
NKV_ASSERT_OFFSET(card_queue_state, index, 0);
NKV_ASSERT_OFFSET(card_queue_state, reserved, 4);
NKV_ASSERT_OFFSET(card_queue_state, status, 8);
NKV_ASSERT_OFFSET(card_queue_state, commands, 16);
NKV_ASSERT_OFFSET(card_queue_state, stream_bursts, 24);
NKV_ASSERT_OFFSET(card_queue_state, refine_bursts, 32);
NKV_ASSERT_OFFSET(card_queue_state, exact_bursts, 40);
NKV_ASSERT_OFFSET(card_queue_state, value_bursts, 48);
NKV_ASSERT_OFFSET(card_queue_state, written_bursts, 56);
NKV_ASSERT_OFFSET(card_queue_state, busy_ticks, 64);
NKV_ASSERT_OFFSET(card_queue_state, interrupts, 72);

/** Names a queue of a file. */
struct nkv_card_queue_index {
  uint32_t index; /**< The file's. */
  uint32_t reserved; /**< Zero. */
};
#define NKV_CARD_QUEUE_INDEX_BYTES 8
NKV_ASSERT_BYTES(card_queue_index, 8);
NKV_ASSERT_OFFSET(card_queue_index, index, 0);
NKV_ASSERT_OFFSET(card_queue_index, reserved, 4);

/** Sleeping until something has completed. */
struct nkv_card_wait {
  uint64_t epoch; /**< What an earlier call gave, or 0; then the present one. */
  uint64_t timeout_ns; /**< Longest sleep. */
};
#define NKV_CARD_WAIT_BYTES 16
NKV_ASSERT_BYTES(card_wait, 16);
NKV_ASSERT_OFFSET(card_wait, epoch, 0);
NKV_ASSERT_OFFSET(card_wait, timeout_ns, 8);

/** An eventfd for completions of a file's queues. */
struct nkv_card_eventfd {
  int32_t fd; /**< It; -1 for none any more. */
  uint32_t reserved; /**< Zero. */
};
#define NKV_CARD_EVENTFD_BYTES 8
NKV_ASSERT_BYTES(card_eventfd, 8);
NKV_ASSERT_OFFSET(card_eventfd, fd, 0);
NKV_ASSERT_OFFSET(card_eventfd, reserved, 4);

/** A command of the firmware's mailbox. */
struct nkv_card_mailbox {
  uint16_t opcode; /**< Which: those we have are values of `cci_opcode`. */
  uint16_t status; /**< How it ended. [a value of cci_status] */
  uint32_t payload_bytes; /**< At `payload`: of the command, then of its answer. */
  uint32_t room_bytes; /**< For the answer. */
  uint32_t reserved; /**< Zero. */
  uint64_t payload; /**< The caller's address of both. */
};
#define NKV_CARD_MAILBOX_BYTES 24
NKV_ASSERT_BYTES(card_mailbox, 24);
NKV_ASSERT_OFFSET(card_mailbox, opcode, 0);
NKV_ASSERT_OFFSET(card_mailbox, status, 2);
NKV_ASSERT_OFFSET(card_mailbox, payload_bytes, 4);
NKV_ASSERT_OFFSET(card_mailbox, room_bytes, 8);
NKV_ASSERT_OFFSET(card_mailbox, reserved, 12);
NKV_ASSERT_OFFSET(card_mailbox, payload, 16);

/**
 * An event of the perf PMU `nearkvN_hotness`, as `config`, `config1` and `config2`: codes are those
 * of a CHMU (CXL specification). Its AUX area takes entries of the monitor's hot list as they are,
 * 8 bytes each: the unit's number above a count of `caps/counter_bits` bits.
 */
struct nkv_card_hotness {
  uint8_t monitor; /**< Which. [a value of card_monitor] */
  uint8_t track; /**< Accesses that count: 4 reads, 5 writes, 6 both; 1 to 3 are the same. */
  uint8_t unit_log2; /**< Log2 of a unit's bytes. */
  uint8_t down_sampling; /**< One access of 2**n counts. */
  uint8_t mode; /**< 0 in epochs, 1 always on. */
  uint8_t randomize; /**< 1: which access of 2**n counts is random. */
  /** Unit of `epoch_value`: 1 is 100 us, each further one ten times as much. */
  uint8_t epoch_scale;
  uint8_t reserved; /**< Zero. */
  uint32_t threshold; /**< Accesses in an epoch from which on a unit is hot. */
  uint16_t epoch_value; /**< Length of an epoch. */
  uint16_t reserved_2; /**< Zero. */
  uint32_t first_block; /**< Of the blocks of 256 MiB that are watched. */
  uint32_t blocks; /**< How many; 0: all of them. */
};
#define NKV_CARD_HOTNESS_BYTES 24
NKV_ASSERT_BYTES(card_hotness, 24);
NKV_ASSERT_OFFSET(card_hotness, monitor, 0);
NKV_ASSERT_OFFSET(card_hotness, track, 1);
NKV_ASSERT_OFFSET(card_hotness, unit_log2, 2);
NKV_ASSERT_OFFSET(card_hotness, down_sampling, 3);
NKV_ASSERT_OFFSET(card_hotness, mode, 4);
NKV_ASSERT_OFFSET(card_hotness, randomize, 5);
NKV_ASSERT_OFFSET(card_hotness, epoch_scale, 6);
NKV_ASSERT_OFFSET(card_hotness, reserved, 7);
NKV_ASSERT_OFFSET(card_hotness, threshold, 8);
NKV_ASSERT_OFFSET(card_hotness, epoch_value, 12);
NKV_ASSERT_OFFSET(card_hotness, reserved_2, 14);
NKV_ASSERT_OFFSET(card_hotness, first_block, 16);
NKV_ASSERT_OFFSET(card_hotness, blocks, 20);

/** Calls of the driver. */
#ifdef __linux__
#define NKV_IOCTL_INFO _IOR(NKV_CARD_IOCTL_TYPE, 0, struct nkv_card_info) /**< What the card is. */
/**
 * Gives the file its window; once. ENOSPC: no room; EDQUOT: more than the user may have; EBUSY:
 * another file has it; ENOENT: nothing was kept under the name; ENXIO: no memory is attached.
 */
#define NKV_IOCTL_WINDOW _IOWR(NKV_CARD_IOCTL_TYPE, 1, struct nkv_card_window)
/** A window that is kept goes with the file after all. */
#define NKV_IOCTL_WINDOW_FORGET _IO(NKV_CARD_IOCTL_TYPE, 2)
/**
 * Takes a queue. EINVAL: rings or window are not the file's; EPERM: no right to this weight;
 * EDQUOT: more queues than the user may have; EBUSY: it runs; EMFILE: no queue is free.
 */
#define NKV_IOCTL_QUEUE_START _IOWR(NKV_CARD_IOCTL_TYPE, 3, struct nkv_card_queue)
/** Gives it back, once its command in flight has ended. ETIMEDOUT: it does not end. */
#define NKV_IOCTL_QUEUE_STOP _IOW(NKV_CARD_IOCTL_TYPE, 4, struct nkv_card_queue_index)
/** What it has done. */
#define NKV_IOCTL_QUEUE_STATE _IOWR(NKV_CARD_IOCTL_TYPE, 5, struct nkv_card_queue_state)
/**
 * Sleeps until completions of the file's queues may have come since `epoch`. ETIMEDOUT; ECANCELED:
 * the card was reset.
 */
#define NKV_IOCTL_WAIT _IOWR(NKV_CARD_IOCTL_TYPE, 6, struct nkv_card_wait)
/** Signals it when WAIT would wake. */
#define NKV_IOCTL_EVENTFD _IOW(NKV_CARD_IOCTL_TYPE, 7, struct nkv_card_eventfd)
/**
 * Has the firmware execute a command; for who has CAP_SYS_RAWIO. EOPNOTSUPP: no firmware runs;
 * EBUSY: it still has another command; ETIMEDOUT: it does not answer; EMSGSIZE: the answer needs
 * more room.
 */
#define NKV_IOCTL_MAILBOX _IOWR(NKV_CARD_IOCTL_TYPE, 8, struct nkv_card_mailbox)
#endif

#undef NKV_ASSERT_OFFSET
#undef NKV_ASSERT_BYTES
#undef NKV_STATIC_ASSERT

#endif /* NKV_CARD_H */
