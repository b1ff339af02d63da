/*
 * Which image starts, kept in flash memory so that a write that is cut short leaves what was: two
 * blocks take turns, and the newer record that is whole holds.
 */
#ifndef NEARKV_FIRMWARE_BOOT_RECORD_H
#define NEARKV_FIRMWARE_BOOT_RECORD_H

#include "firmware/flash.h"

/** Reads the record that holds; without one, that of a card as it is made: what is built in. */
void boot_record_read(const struct flash* flash, struct nkv_boot_record* record);

/** Writes what comes after the record that was read, and completes it; false leaves the old one. */
bool boot_record_write(const struct flash* flash, struct nkv_boot_record* record);

#endif
