#include "firmware/tenants.h"

#include <string.h>

#include "firmware/firmware.h"
#include "nkv_abi.h"

enum { WEIGHT_MOST = NKV_REG_WEIGHT_SHARE_MASK >> NKV_REG_WEIGHT_SHARE_SHIFT };

static void commit(struct tenants* tenants, const struct nkv_card_tenant* table) {
  memcpy(tenants->table, table, sizeof(tenants->table));
  tenants->sum = kept_sum(tenants->table, sizeof(tenants->table));
}

void tenants_start(struct firmware* firmware) {
  static const struct nkv_card_tenant none[NKV_CARD_TENANTS] = {
      {.kind = NKV_CARD_TENANT_KIND_OTHERS}};
  struct tenants* const tenants = &firmware->platform->kept->tenants;
  if (tenants->sum == kept_sum(tenants->table, sizeof(tenants->table))) return;
  commit(tenants, none);
}

static bool is_acceptable(const struct nkv_card_tenant* tenant) {
  switch (tenant->kind) {
    case NKV_CARD_TENANT_KIND_NONE:
      return (tenant->owner | tenant->queues | tenant->weight | tenant->window_bytes) == 0;
    case NKV_CARD_TENANT_KIND_OTHERS:
      if (tenant->owner != 0) return false;
      break;
    case NKV_CARD_TENANT_KIND_USER:
      break;
    default:
      return false;
  }
  return tenant->queues <= NKV_MAX_QUEUES && tenant->weight <= WEIGHT_MOST;
}

static bool is_one_owner(const struct nkv_card_tenant* a, const struct nkv_card_tenant* b) {
  return a->kind != NKV_CARD_TENANT_KIND_NONE && a->kind == b->kind && a->owner == b->owner;
}

enum nkv_cci_status tenants_set(struct firmware* firmware,
                                const struct nkv_card_tenant table[NKV_CARD_TENANTS]) {
  for (unsigned i = 0; i < NKV_CARD_TENANTS; ++i) {
    if (!is_acceptable(&table[i])) return NKV_CCI_STATUS_INVALID_INPUT;
    for (unsigned j = 0; j < i; ++j) {
      if (is_one_owner(&table[i], &table[j])) return NKV_CCI_STATUS_INVALID_INPUT;
    }
  }
  commit(&firmware->platform->kept->tenants, table);
  return NKV_CCI_STATUS_SUCCESS;
}
