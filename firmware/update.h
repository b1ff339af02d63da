/*
 * A new image of the firmware comes in parts, is checked, and is started: CXL 3.1, 8.2.10.3. It is
 * written to the slot that does not run, what it begins with last: power may go at any time.
 */
#ifndef NEARKV_FIRMWARE_UPDATE_H
#define NEARKV_FIRMWARE_UPDATE_H

#include "firmware/boot/image.h"
#include "firmware/boot/record.h"

struct firmware;

struct update {
  struct nkv_boot_record record; /**< The one that holds. */
  bool is_open;                  /**< Parts of an image come. */
  uint32_t received;             /**< Bytes of them, header and all. */
  uint64_t last_part_ns;
  struct image_check check; /**< Has the header of the image that comes, then is its check. */
  uint32_t activated;       /**< The slot whose image is checked to be started. */
};

/** State after a reset; tells how the last activation ended as the operation in the background. */
void update_start(struct firmware* firmware);

/** Trusts a new image, as it has answered a command; false if flash memory does not keep that. */
bool update_trust(struct firmware* firmware);

/** The slot that a new image goes to: one that does not run. */
unsigned update_target(const struct firmware* firmware);

/** Begins anew with no part; false if the one that runs cannot be trusted. */
bool update_open(struct firmware* firmware);

/** Forgets the parts that are there. */
void update_abort(struct firmware* firmware);

/** Adds a part; all but the last are whole lines. A status that is no success ends the transfer. */
enum nkv_cci_status update_add(struct firmware* firmware, const uint8_t* bytes, size_t size);

/** The last part was added: checks the image in the background, and completes its slot. */
enum nkv_cci_status update_close(struct firmware* firmware);

/** Checks the image of a slot in the background and has it start: at once, or with a reset. */
enum nkv_cci_status update_activate(struct firmware* firmware, unsigned slot, bool at_once);

#endif
