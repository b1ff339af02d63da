/* What the firmware tries once when it starts: whether all that it manages answers. */
#ifndef NEARKV_FIRMWARE_SELF_TEST_H
#define NEARKV_FIRMWARE_SELF_TEST_H

#include <stdbool.h>
#include <stdint.h>

struct firmware;

/** Parts that failed, as bits. */
enum {
  SELF_TEST_ENGINE = 1 << 0, /**< Its registers do not answer, or follow another contract. */
  SELF_TEST_MEMORY = 1 << 1, /**< A line of device memory cannot be read. */
  SELF_TEST_DIGEST = 1 << 2, /**< The processor computes a digest wrong. */
};

struct self_test {
  bool is_done;
  uint8_t failed;
};

/** Does it in the first turn, and tells of what failed; false if it is done already. */
bool self_test_turn(struct firmware* firmware);

#endif
