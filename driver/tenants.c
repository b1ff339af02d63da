// SPDX-License-Identifier: GPL-2.0
/*
 * What users may have of a card: a table that its firmware keeps (`card_tenant`), and the driver's
 * copy, which holds them to it. A user's processes count together. Without a firmware, or without
 * an entry, there is no limit; who has CAP_SYS_RESOURCE has none either, and keeps the weight.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/slab.h>
#include <linux/uidgid.h>

#include "card.h"

/* Of the features' commands: CXL 3.1, 8.2.10.6. */
#define NKV_FEATURES_LIST_BYTES 8

struct nkv_features_wanted {
	__le32 room_bytes;
	__le16 first;
	__le16 reserved;
} __packed;

struct nkv_feature_wanted {
	u8 uuid[16];
	__le16 offset;
	__le16 bytes;
	u8 selection;
} __packed;

struct nkv_feature_entry {
	u8 uuid[16];
	__le16 index;
	__le16 get_bytes;
	u8 rest[28];
} __packed;

/* Has the firmware execute what `payload`, of NKV_MAILBOX_BYTES, holds, and answer in it. */
static int nkv_tenants_ask(struct nkv_card *card, u16 opcode, u32 payload_bytes, u32 answer_bytes,
			   u64 *payload)
{
	struct nkv_card_mailbox command = {
		.opcode = opcode,
		.payload_bytes = payload_bytes,
		.room_bytes = NKV_MAILBOX_BYTES,
	};
	int ret = nkv_mailbox_execute(card, &command, payload);

	if (!ret &&
	    (command.status != NKV_CCI_STATUS_SUCCESS || command.payload_bytes != answer_bytes))
		ret = -EOPNOTSUPP;
	return ret;
}

static int nkv_tenants_fetch(struct nkv_card *card, u64 *payload)
{
	const size_t table_bytes = sizeof(card->tenants);
	const struct nkv_feature_entry *entry = (void *)payload + NKV_FEATURES_LIST_BYTES;
	struct nkv_features_wanted *list = (void *)payload;
	struct nkv_feature_wanted *wanted = (void *)payload;
	const u32 list_bytes = NKV_FEATURES_LIST_BYTES + sizeof(*entry);
	u8 uuid[16];
	int ret;

	*list = (struct nkv_features_wanted){
		.room_bytes = cpu_to_le32(list_bytes),
		.first = cpu_to_le16(NKV_CARD_FEATURE_TENANTS),
	};
	ret = nkv_tenants_ask(card, NKV_CCI_OPCODE_GET_SUPPORTED_FEATURES, sizeof(*list),
			      list_bytes, payload);
	if (ret)
		return ret;
	if (le16_to_cpu(entry->get_bytes) != table_bytes)
		return -EOPNOTSUPP;
	memcpy(uuid, entry->uuid, sizeof(uuid));
	*wanted = (struct nkv_feature_wanted){ .bytes = cpu_to_le16(table_bytes) };
	memcpy(wanted->uuid, uuid, sizeof(uuid));
	return nkv_tenants_ask(card, NKV_CCI_OPCODE_GET_FEATURE, sizeof(*wanted), table_bytes,
			       payload);
}

/**
 * nkv_tenants_refresh - Asks the firmware who may have what
 * @card: card->alive is held for reading.
 *
 * That holds from then on; what users have already they keep. If it fails, what was known holds.
 */
int nkv_tenants_refresh(struct nkv_card *card)
{
	u64 *payload = kzalloc(NKV_MAILBOX_BYTES, GFP_KERNEL);
	int ret = payload ? nkv_tenants_fetch(card, payload) : -ENOMEM;

	if (!ret) {
		mutex_lock(&card->lock);
		memcpy(card->tenants, payload, sizeof(card->tenants));
		mutex_unlock(&card->lock);
	}
	kfree(payload);
	if (!ret || ret == -EOPNOTSUPP)
		return 0;
	dev_warn(&card->pdev->dev, "%s: does not tell its tenants' limits: %d\n", card->name, ret);
	return ret;
}

static bool nkv_tenant_is(const struct nkv_card_tenant *tenant, kuid_t user)
{
	return tenant->kind == NKV_CARD_TENANT_KIND_USER &&
	       tenant->owner == from_kuid(&init_user_ns, user);
}

/* The entry of a user, or NULL. */
static const struct nkv_card_tenant *nkv_tenant_of(const struct nkv_card *card, kuid_t user)
{
	const struct nkv_card_tenant *others = NULL;
	unsigned int i;

	for (i = 0; i < NKV_CARD_TENANTS; i++) {
		if (nkv_tenant_is(&card->tenants[i], user))
			return &card->tenants[i];
		if (card->tenants[i].kind == NKV_CARD_TENANT_KIND_OTHERS)
			others = &card->tenants[i];
	}
	return others;
}

/* The limits that hold for what is a user's, or NULL: the caller needs none. */
static const struct nkv_card_tenant *nkv_tenant_limits(const struct nkv_card *card, kuid_t user)
{
	const struct nkv_card_tenant *tenant = nkv_tenant_of(card, user);

	return tenant && !capable(CAP_SYS_RESOURCE) ? tenant : NULL;
}

/**
 * nkv_tenant_may_have_window - Whether the caller may have a window of so many bytes more
 * @card: card->lock is held.
 * @bytes: Of the window.
 */
bool nkv_tenant_may_have_window(struct nkv_card *card, u64 bytes)
{
	const struct nkv_card_tenant *tenant = nkv_tenant_limits(card, current_euid());
	const struct nkv_window *window;
	u64 has = 0;

	if (!tenant)
		return true;
	list_for_each_entry(window, &card->windows, list)
		if (uid_eq(window->owner, current_euid()))
			has += window->bytes;
	return has <= tenant->window_bytes && bytes <= tenant->window_bytes - has;
}

/**
 * nkv_tenant_may_have_queue - Whether a window's owner may have one more queue
 * @card: card->lock is held.
 * @owner: Whoever starts it: a file may have gone to another user's process.
 */
bool nkv_tenant_may_have_queue(struct nkv_card *card, kuid_t owner)
{
	const struct nkv_card_tenant *tenant = nkv_tenant_limits(card, owner);
	unsigned int has = 0;
	unsigned int i;

	if (!tenant)
		return true;
	for (i = 0; i < NKV_MAX_QUEUES; i++)
		if (card->queues[i].file && uid_eq(card->queues[i].file->window->owner, owner))
			has++;
	return has < tenant->queues;
}

/**
 * nkv_tenant_weight - The largest weight that queues in a user's windows may have
 * @card: card->lock is held.
 * @owner: The user.
 */
unsigned int nkv_tenant_weight(struct nkv_card *card, kuid_t owner)
{
	const struct nkv_card_tenant *tenant = nkv_tenant_of(card, owner);

	return tenant && tenant->weight ? tenant->weight : 1;
}
