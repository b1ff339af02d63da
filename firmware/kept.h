/*
 * What outlives a restart of the firmware: it lies where the loader leaves it. Each part ends with
 * a sum of what is before, which is that of memory that is zero too, as it is at power-on.
 */
#ifndef NEARKV_FIRMWARE_KEPT_H
#define NEARKV_FIRMWARE_KEPT_H

#include <stddef.h>

#include "firmware/capacity.h"
#include "firmware/hotness.h"
#include "firmware/tenants.h"

struct kept {
  struct capacity capacity;
  struct tenants tenants;
  struct hotness_claims hotness; /**< Needs no sum: it holds if registers are the same. */
};

/** FNV-1a from zero on: tells what was trodden on from what was written. */
uint32_t kept_sum(const void* bytes, size_t size);

#endif
