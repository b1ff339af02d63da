/* The firmware on its processor: a platform of what `firmware_share` has, and the loop. */
#include <string.h>

#include "firmware/cci/cci.h"
#include "firmware/processor/card.h"

static volatile struct nkv_firmware_share* const share = CARD_SHARE;
static volatile const uint32_t* const timer = (volatile const uint32_t*)NKV_PROCESSOR_TIMER_AT;

_Static_assert(sizeof(struct kept) <= NKV_PROCESSOR_BOOT_AT - NKV_PROCESSOR_KEPT_AT,
               "what outlives a restart has its place");

static uint32_t errors_taken;

/* Reading the lower word keeps the upper one still. */
static uint64_t uptime_ns(void* context) {
  (void)context;
  const uint64_t low = timer[0];
  const uint64_t high = timer[1];
  return (high << 32 | low) * NKV_PROCESSOR_CYCLE_NS;
}

static int16_t temperature_celsius(void* context) {
  (void)context;
  return (int16_t)share->temperature_celsius;
}

static bool take_media_error(void* context, struct media_error* error) {
  (void)context;
  if (share->errors == errors_taken) return false;
  error->address = share->error_address;
  error->corrected = share->error_corrected != 0;
  share->errors_taken = ++errors_taken;
  return true;
}

static bool poison_line(void* context, uint64_t address) {
  (void)context;
  return card_ask(NKV_FIRMWARE_OPERATION_POISON, address, LINE_BYTES);
}

static bool write_line(void* context, uint64_t address, const uint8_t bytes[LINE_BYTES]) {
  (void)context;
  card_give_line(bytes);
  return card_ask(NKV_FIRMWARE_OPERATION_WRITE, address, LINE_BYTES);
}

static bool check_lines(void* context, uint64_t* address, uint32_t bytes) {
  (void)context;
  const bool is_done = card_ask(NKV_FIRMWARE_OPERATION_CHECK, *address, bytes);
  *address = share->operation_at;
  return is_done;
}

static bool wipe(void* context, uint64_t address, uint32_t bytes) {
  (void)context;
  return card_ask(NKV_FIRMWARE_OPERATION_WIPE, address, bytes);
}

static bool read_register(void* context, uint32_t offset, uint64_t* value) {
  (void)context;
  const bool is_done = card_ask(NKV_FIRMWARE_OPERATION_READ_REGISTER, offset, 8);
  *value = 0;
  for (int i = 7; i >= 0; --i) *value = *value << 8 | share->line[i];
  return is_done;
}

static bool write_register(void* context, uint32_t offset, uint64_t value) {
  (void)context;
  for (int i = 0; i < 8; ++i, value >>= 8) share->line[i] = value & 0xff;
  return card_ask(NKV_FIRMWARE_OPERATION_WRITE_REGISTER, offset, 8);
}

/* It is wanted: another image counts anew. */
static void restart(void* context) {
  (void)context;
  *CARD_PANIC = (struct nkv_firmware_panic){0};
  card_restart();
}

static void interrupt(void* context, unsigned message) {
  (void)context;
  share->interrupt_message = message;
  share->interrupts = share->interrupts + 1;
}

/* Between the share's payload and an aligned buffer as large, a word at a time. */
static void take_payload(uint8_t* buffer, size_t size) {
  uint8_t* to = __builtin_assume_aligned(buffer, 4);
  volatile const uint32_t* from = (volatile const uint32_t*)share->payload;
  for (size_t at = 0; at < size; at += 4) {
    const uint32_t word = from[at / 4];
    memcpy(to + at, &word, 4);
  }
}

static void give_payload(const uint8_t* buffer, size_t size) {
  const uint8_t* from = __builtin_assume_aligned(buffer, 4);
  volatile uint32_t* to = (volatile uint32_t*)share->payload;
  for (size_t at = 0; at < size; at += 4) {
    uint32_t word;
    memcpy(&word, from + at, 4);
    to[at / 4] = word;
  }
}

/* The payload is copied before it is looked at: a host may write it at any time. */
static void answer_command(struct firmware* firmware) {
  static _Alignas(4) uint8_t payload[NKV_MAILBOX_BYTES];
  static _Alignas(4) struct cci_answer answer;
  const uint32_t size = share->payload_bytes;
  enum nkv_cci_status status = NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
  answer.size = 0;
  if (size <= NKV_MAILBOX_BYTES) {
    take_payload(payload, size);
    status = cci_execute(firmware, share->opcode, (struct cci_payload){payload, size}, &answer);
  }
  give_payload(answer.bytes, answer.size);
  share->payload_bytes = answer.size;
  share->status = status;
}

/* What the mailbox's registers say all the time, and that there is somebody who says it. */
static void show_status(const struct firmware* firmware) {
  share->event_logs = events_logs_in_use(&firmware->events);
  share->background = background_register(&firmware->background);
  share->background_runs = firmware->background.step != NULL;
  share->magic = NKV_FIRMWARE_MAGIC;
  card_is_alive();
}

int main(void) {
  static struct platform platform;
  static struct firmware firmware;
  platform = (struct platform){.memory_bytes = share->memory_bytes,
                               .dynamic_bytes = share->dynamic_bytes,
                               .serial = share->serial,
                               .kept = CARD_KEPT,
                               .panic = CARD_PANIC,
                               .boot = CARD_BOOT,
                               .flash = &card_flash,
                               .uptime_ns = uptime_ns,
                               .temperature_celsius = temperature_celsius,
                               .take_media_error = take_media_error,
                               .poison_line = poison_line,
                               .write_line = write_line,
                               .check_lines = check_lines,
                               .wipe = wipe,
                               .read_register = read_register,
                               .write_register = write_register,
                               .restart = restart,
                               .interrupt = interrupt};
  firmware_start(&firmware, &platform);
  uint32_t answered = share->answer;
  errors_taken = share->errors_taken;
  /* A command that went wrong is lost with what it did. At a first start it was not begun. */
  if (share->request != answered && CARD_PANIC->starts > 1) {
    share->status = NKV_CCI_STATUS_INTERNAL_ERROR;
    share->payload_bytes = 0;
    share->answer = ++answered;
  }
  for (;;) {
    firmware_turn(&firmware);
    show_status(&firmware);
    if (share->request == answered) continue;
    answer_command(&firmware);
    show_status(&firmware);
    share->answer = ++answered;
  }
}
