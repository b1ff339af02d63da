/* Tenants: what users of the card may have of it. Whoever gives it out holds them to it. */
#ifndef NEARKV_FIRMWARE_TENANTS_H
#define NEARKV_FIRMWARE_TENANTS_H

#include <stdint.h>

#include "nkv_card.h"

struct firmware;

/** Lies where a restart of the firmware leaves it. */
struct tenants {
  struct nkv_card_tenant table[NKV_CARD_TENANTS];
  uint32_t sum; /**< Of the table. */
};

/** Takes over what was kept. What is damaged leaves nothing to anybody: it may have said so. */
void tenants_start(struct firmware* firmware);

/** INVALID_INPUT, and nothing changes: a number is too large, or an owner is there twice. */
enum nkv_cci_status tenants_set(struct firmware* firmware,
                                const struct nkv_card_tenant table[NKV_CARD_TENANTS]);

#endif
