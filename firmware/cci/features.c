/* Features: CXL 3.1, 8.2.10.6. A table of what a host reads and writes as bytes. */
#include <string.h>

#include "firmware/bytes.h"
#include "firmware/cci/commands.h"

enum {
  UUID_BYTES = 16,
  LIST_BYTES = 8,
  ENTRY_BYTES = 48,
  SET_HEADER_BYTES = 32,
  CHANGEABLE = 1 << 0,
  CURRENT = 0,
  VERSION = 1,
};

struct feature {
  uint8_t uuid[UUID_BYTES];
  uint16_t get_bytes, set_bytes;
  bool (*get)(struct firmware* firmware, uint8_t* out);
  enum nkv_cci_status (*set)(struct firmware* firmware, const uint8_t* in);
};

/* Device patrol scrub control: tables 8-222 and 8-223. */
enum { SCRUB_CYCLE_CHANGES = 1 << 0, SCRUB_ENABLED = 1 << 0 };

static bool get_scrub(struct firmware* firmware, uint8_t* out) {
  out[0] = SCRUB_CYCLE_CHANGES;
  out[1] = firmware->scrub.hours;
  out[2] = SCRUB_LEAST_HOURS;
  out[3] = firmware->scrub.is_enabled ? SCRUB_ENABLED : 0;
  return true;
}

static enum nkv_cci_status set_scrub(struct firmware* firmware, const uint8_t* in) {
  if (in[0] < SCRUB_LEAST_HOURS || (in[1] & ~SCRUB_ENABLED) != 0)
    return NKV_CCI_STATUS_INVALID_INPUT;
  scrub_set(firmware, in[0], in[1] != 0);
  return NKV_CCI_STATUS_SUCCESS;
}

/* Who goes first where the host's accesses and near-data's meet: our own. */
static const uint32_t sharing_registers[] = {NKV_REG_INLINE_CONTROL, NKV_REG_INLINE_LIMITS,
                                             NKV_REG_INLINE_LOAD};
enum { SHARING_REGISTERS = sizeof(sharing_registers) / sizeof(sharing_registers[0]) };

static bool get_sharing(struct firmware* firmware, uint8_t* out) {
  const struct platform* platform = firmware->platform;
  for (int i = 0; i < SHARING_REGISTERS; ++i) {
    uint64_t value;
    if (!platform->read_register(platform->context, sharing_registers[i], &value)) return false;
    put_number(out + 8 * (size_t)i, value, 8);
  }
  return true;
}

/* The control comes last: it says that the others hold. */
static enum nkv_cci_status set_sharing(struct firmware* firmware, const uint8_t* in) {
  const struct platform* platform = firmware->platform;
  for (int i = SHARING_REGISTERS - 1; i >= 0; --i) {
    const uint64_t value = take_number(in + 8 * (size_t)i, 8);
    if (!platform->write_register(platform->context, sharing_registers[i], value)) {
      return NKV_CCI_STATUS_INTERNAL_ERROR;
    }
  }
  return NKV_CCI_STATUS_SUCCESS;
}

static bool get_tenants(struct firmware* firmware, uint8_t* out) {
  const struct tenants* tenants = &firmware->platform->kept->tenants;
  memcpy(out, tenants->table, sizeof(tenants->table));
  return true;
}

static enum nkv_cci_status set_tenants(struct firmware* firmware, const uint8_t* in) {
  struct nkv_card_tenant table[NKV_CARD_TENANTS];
  memcpy(table, in, sizeof(table));
  return tenants_set(firmware, table);
}

/* What is counted while no host does: our own. */
enum {
  HOTNESS_SET_BYTES = HOTNESS_MONITORS * sizeof(struct nkv_hotness_setting),
  HOTNESS_GET_BYTES = HOTNESS_SET_BYTES + HOTNESS_MONITORS * sizeof(struct nkv_hotness_status),
};

static bool get_hotness(struct firmware* firmware, uint8_t* out) {
  for (unsigned i = 0; i < HOTNESS_MONITORS; ++i) {
    const struct nkv_hotness_setting* setting = &firmware->hotness.monitors[i].setting;
    const struct nkv_hotness_status status = hotness_status(firmware, i);
    memcpy(out + i * sizeof(*setting), setting, sizeof(*setting));
    memcpy(out + HOTNESS_SET_BYTES + i * sizeof(status), &status, sizeof(status));
  }
  return true;
}

static enum nkv_cci_status set_hotness(struct firmware* firmware, const uint8_t* in) {
  struct nkv_hotness_setting settings[HOTNESS_MONITORS];
  memcpy(settings, in, sizeof(settings));
  return hotness_set(firmware, settings);
}

static const struct feature features[] = {
    /* 96dad7d6-fde8-482b-a733-75774e06db8a */
    [NKV_CARD_FEATURE_SCRUB] = {.uuid = {0x96, 0xda, 0xd7, 0xd6, 0xfd, 0xe8, 0x48, 0x2b, 0xa7, 0x33,
                                         0x75, 0x77, 0x4e, 0x06, 0xdb, 0x8a},
                                .get_bytes = 4,
                                .set_bytes = 2,
                                .get = get_scrub,
                                .set = set_scrub},
    /* 9e0c7b1a-54d2-4f06-8f3b-6e6561726b76 */
    [NKV_CARD_FEATURE_SHARING] = {.uuid = {0x9e, 0x0c, 0x7b, 0x1a, 0x54, 0xd2, 0x4f, 0x06, 0x8f,
                                           0x3b, 0x6e, 0x65, 0x61, 0x72, 0x6b, 0x76},
                                  .get_bytes = 8 * SHARING_REGISTERS,
                                  .set_bytes = 8 * SHARING_REGISTERS,
                                  .get = get_sharing,
                                  .set = set_sharing},
    /* 9e0c7b1a-54d2-4f06-8f3c-6e6561726b76 */
    [NKV_CARD_FEATURE_TENANTS] = {.uuid = {0x9e, 0x0c, 0x7b, 0x1a, 0x54, 0xd2, 0x4f, 0x06, 0x8f,
                                           0x3c, 0x6e, 0x65, 0x61, 0x72, 0x6b, 0x76},
                                  .get_bytes = sizeof(struct nkv_card_tenant[NKV_CARD_TENANTS]),
                                  .set_bytes = sizeof(struct nkv_card_tenant[NKV_CARD_TENANTS]),
                                  .get = get_tenants,
                                  .set = set_tenants},
    /* b3f1c6a2-7d0e-4c58-9a41-6e6561726b76 */
    [NKV_CARD_FEATURE_HOTNESS] = {.uuid = {0xb3, 0xf1, 0xc6, 0xa2, 0x7d, 0x0e, 0x4c, 0x58, 0x9a,
                                           0x41, 0x6e, 0x65, 0x61, 0x72, 0x6b, 0x76},
                                  .get_bytes = HOTNESS_GET_BYTES,
                                  .set_bytes = HOTNESS_SET_BYTES,
                                  .get = get_hotness,
                                  .set = set_hotness},
};
enum { FEATURES = sizeof(features) / sizeof(features[0]) };

_Static_assert(8 * SHARING_REGISTERS <= FEATURE_MOST_BYTES, "room for each");
_Static_assert((size_t)HOTNESS_GET_BYTES <= FEATURE_MOST_BYTES, "room for each");

static const struct feature* find_feature(const uint8_t* uuid) {
  for (int i = 0; i < FEATURES; ++i) {
    if (memcmp(features[i].uuid, uuid, UUID_BYTES) == 0) return &features[i];
  }
  return NULL;
}

/* Tables 8-113 to 8-115. */
enum nkv_cci_status cci_get_supported_features(struct firmware* firmware,
                                               struct cci_payload payload,
                                               struct cci_answer* answer) {
  (void)firmware;
  const uint64_t room = take_number(payload.bytes, 4);
  const uint64_t first = take_number(payload.bytes + 4, 2);
  if (room < LIST_BYTES || first >= FEATURES) return NKV_CCI_STATUS_INVALID_INPUT;
  uint64_t count = (room - LIST_BYTES) / ENTRY_BYTES;
  if (count > FEATURES - first) count = FEATURES - first;

  uint8_t* out = cci_answer_with(answer, LIST_BYTES + (size_t)count * ENTRY_BYTES);
  put_number(out, count, 2);
  put_number(out + 2, FEATURES, 2);
  for (size_t i = 0; i < count; ++i) {
    const struct feature* feature = &features[first + i];
    uint8_t* entry = out + LIST_BYTES + i * ENTRY_BYTES;
    memcpy(entry, feature->uuid, UUID_BYTES);
    put_number(entry + 16, first + i, 2);
    put_number(entry + 18, feature->get_bytes, 2);
    put_number(entry + 20, feature->set_bytes, 2);
    put_number(entry + 22, CHANGEABLE, 4);
    put_number(entry + 26, VERSION, 1);
    put_number(entry + 27, VERSION, 1);
    put_number(entry + 28, CCI_CHANGES_POLICY, 2);
  }
  return NKV_CCI_STATUS_SUCCESS;
}

enum nkv_cci_status cci_get_feature(struct firmware* firmware, struct cci_payload payload,
                                    struct cci_answer* answer) {
  uint8_t value[FEATURE_MOST_BYTES];
  const struct feature* feature = find_feature(payload.bytes);
  const size_t offset = (size_t)take_number(payload.bytes + 16, 2);
  const size_t bytes = (size_t)take_number(payload.bytes + 18, 2);
  if (feature == NULL) return NKV_CCI_STATUS_UNSUPPORTED;
  if (payload.bytes[20] != CURRENT) return NKV_CCI_STATUS_UNSUPPORTED_FEATURE_SELECTION;
  if (offset > feature->get_bytes || bytes > feature->get_bytes - offset) {
    return NKV_CCI_STATUS_INVALID_INPUT;
  }
  if (!feature->get(firmware, value)) return NKV_CCI_STATUS_INTERNAL_ERROR;
  memcpy(cci_answer_with(answer, bytes), value + offset, bytes);
  return NKV_CCI_STATUS_SUCCESS;
}

static enum nkv_cci_status add_part(struct feature_transfer* transfer,
                                    const struct feature* feature, size_t offset,
                                    const uint8_t* bytes, size_t size) {
  if (offset != transfer->size) return NKV_CCI_STATUS_FEATURE_TRANSFER_OUT_OF_ORDER;
  if (size > feature->set_bytes - transfer->size) return NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
  memcpy(transfer->bytes + transfer->size, bytes, size);
  transfer->size += size;
  return NKV_CCI_STATUS_SUCCESS;
}

static enum nkv_cci_status set_whole(struct firmware* firmware, const struct feature* feature) {
  struct feature_transfer* transfer = &firmware->feature;
  const bool is_whole = transfer->size == feature->set_bytes;
  transfer->uuid = NULL;
  return is_whole ? feature->set(firmware, transfer->bytes) : NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH;
}

/* In one piece, or in parts that follow each other. */
enum nkv_cci_status cci_set_feature(struct firmware* firmware, struct cci_payload payload,
                                    struct cci_answer* answer) {
  (void)answer;
  struct feature_transfer* transfer = &firmware->feature;
  const struct feature* feature = find_feature(payload.bytes);
  const uint32_t flags = (uint32_t)take_number(payload.bytes + UUID_BYTES, 4);
  const size_t offset = (size_t)take_number(payload.bytes + 20, 2);
  const uint8_t* bytes = payload.bytes + SET_HEADER_BYTES;
  const size_t size = payload.size - SET_HEADER_BYTES;
  if (feature == NULL) return NKV_CCI_STATUS_UNSUPPORTED;
  if (payload.bytes[22] != VERSION) return NKV_CCI_STATUS_UNSUPPORTED_FEATURE_VERSION;
  if (flags > NKV_CCI_TRANSFER_ABORT)
    return NKV_CCI_STATUS_INVALID_INPUT; /* Nothing outlives a reset. */

  if (flags == NKV_CCI_TRANSFER_FULL || flags == NKV_CCI_TRANSFER_INITIATE) {
    if (transfer->uuid != NULL) return NKV_CCI_STATUS_FEATURE_TRANSFER_IN_PROGRESS;
    transfer->size = 0;
  } else if (transfer->uuid != feature->uuid) {
    return NKV_CCI_STATUS_FEATURE_TRANSFER_OUT_OF_ORDER;
  }
  if (flags == NKV_CCI_TRANSFER_ABORT) {
    transfer->uuid = NULL;
    return NKV_CCI_STATUS_SUCCESS;
  }
  const enum nkv_cci_status status = add_part(transfer, feature, offset, bytes, size);
  if (status != NKV_CCI_STATUS_SUCCESS) return status;
  if (flags == NKV_CCI_TRANSFER_FULL || flags == NKV_CCI_TRANSFER_END)
    return set_whole(firmware, feature);
  transfer->uuid = feature->uuid;
  return NKV_CCI_STATUS_SUCCESS;
}
