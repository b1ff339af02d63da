#include "firmware/self_test.h"

#include <string.h>

#include "firmware/firmware.h"
#include "nkv_abi.h"

static bool engine_works(const struct platform* platform) {
  uint64_t id;
  return platform->read_register(platform->context, NKV_REG_ID, &id) && id == NKV_ABI_ID;
}

static bool memory_works(const struct platform* platform) {
  uint64_t at = 0;
  return platform->check_lines(platform->context, &at, LINE_BYTES);
}

/* RFC 7693, appendix A: BLAKE2b-512 of "abc", its first 8 bytes. */
static bool digest_works(void) {
  static const uint8_t expected[8] = {0xba, 0x80, 0xa5, 0x3f, 0x98, 0x1c, 0x4d, 0x0d};
  uint8_t digest[64];
  crypto_blake2b(digest, sizeof(digest), (const uint8_t*)"abc", 3);
  return memcmp(digest, expected, sizeof(expected)) == 0;
}

bool self_test_turn(struct firmware* firmware) {
  const struct platform* platform = firmware->platform;
  struct self_test* test = &firmware->self_test;
  if (test->is_done) return false;
  test->is_done = true;
  if (!engine_works(platform)) test->failed |= SELF_TEST_ENGINE;
  if (!memory_works(platform)) test->failed |= SELF_TEST_MEMORY;
  if (!digest_works()) test->failed |= SELF_TEST_DIGEST;
  if (test->failed != 0) {
    events_add(&firmware->events, EVENT_LOG_FAILURE,
               &(struct event){.kind = EVENT_OF_MODULE,
                               .type = EVENT_HEALTH,
                               .celsius = platform->temperature_celsius(platform->context)});
  }
  return true;
}
