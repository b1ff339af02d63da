// SPDX-License-Identifier: GPL-2.0
/*
 * The firmware's mailbox, behind the engine's registers: CXL 3.1, section 8.2.8. The driver passes
 * commands on and judges nothing but sizes. A command that nobody waited for to its end keeps the
 * mailbox until the firmware answers it; the engine's queues know nothing of that.
 */
#include <linux/bitfield.h>
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "card.h"

#define NKV_MAILBOX_TIMEOUT (60 * HZ) /* A simulated firmware takes its time. */

#define NKV_CAPABILITY_ID      GENMASK_ULL(15, 0)
#define NKV_CAPABILITY_COUNT   GENMASK_ULL(47, 32)
#define NKV_CAPABILITY_AT      GENMASK_ULL(63, 32)
#define NKV_CAPABILITY_MAILBOX 2

/* Of the mailbox: capabilities and control are one word, as all registers here are. */
#define NKV_MAILBOX_CONTROL   0x00
#define NKV_MAILBOX_DOORBELL  BIT_ULL(32)
#define NKV_MAILBOX_COMMAND   0x08
#define NKV_MAILBOX_OPCODE    GENMASK_ULL(15, 0)
#define NKV_MAILBOX_LENGTH    GENMASK_ULL(36, 16)
#define NKV_MAILBOX_STATUS    0x10
#define NKV_MAILBOX_RETURNED  GENMASK_ULL(47, 32)
#define NKV_MAILBOX_PAYLOAD   0x20
#define NKV_MAILBOX_REGISTERS (NKV_MAILBOX_PAYLOAD + NKV_MAILBOX_BYTES)

/**
 * nkv_mailbox_find - Finds a new card's mailbox, if it has one
 * @card: Nobody else knows it yet.
 */
void nkv_mailbox_find(struct nkv_card *card)
{
	u64 array, header;
	u64 i;

	mutex_init(&card->mailbox.lock);
	if (nkv_read(card, NKV_CARD_MANAGEMENT_AT, &array) || FIELD_GET(NKV_CAPABILITY_ID, array))
		return;
	for (i = 1; i <= FIELD_GET(NKV_CAPABILITY_COUNT, array); i++) {
		if (16 * (i + 1) > NKV_CARD_MANAGEMENT_BYTES ||
		    nkv_read(card, NKV_CARD_MANAGEMENT_AT + 16 * i, &header))
			return;
		if (FIELD_GET(NKV_CAPABILITY_ID, header) != NKV_CAPABILITY_MAILBOX)
			continue;
		if (FIELD_GET(NKV_CAPABILITY_AT, header) + NKV_MAILBOX_REGISTERS <=
		    NKV_CARD_MANAGEMENT_BYTES)
			card->mailbox.at =
				NKV_CARD_MANAGEMENT_AT + FIELD_GET(NKV_CAPABILITY_AT, header);
		return;
	}
}

static int nkv_mailbox_give(struct nkv_card *card, const struct nkv_card_mailbox *command,
			    const u64 *payload)
{
	u32 at = card->mailbox.at;
	u64 control;
	u32 i;
	int ret;

	ret = nkv_read(card, at + NKV_MAILBOX_CONTROL, &control);
	if (!ret && control & NKV_MAILBOX_DOORBELL)
		ret = -EBUSY;
	for (i = 0; !ret && i < DIV_ROUND_UP(command->payload_bytes, 8); i++)
		ret = nkv_write(card, at + NKV_MAILBOX_PAYLOAD + 8 * i, payload[i]);
	if (!ret)
		ret = nkv_write(card, at + NKV_MAILBOX_COMMAND,
				FIELD_PREP(NKV_MAILBOX_OPCODE, command->opcode) |
					FIELD_PREP(NKV_MAILBOX_LENGTH, command->payload_bytes));
	if (!ret)
		ret = nkv_write(card, at + NKV_MAILBOX_CONTROL, NKV_MAILBOX_DOORBELL);
	return ret;
}

static int nkv_mailbox_await(struct nkv_card *card)
{
	unsigned long deadline = jiffies + NKV_MAILBOX_TIMEOUT;
	u64 control;
	int ret;

	for (;;) {
		ret = nkv_read(card, card->mailbox.at + NKV_MAILBOX_CONTROL, &control);
		if (ret || !(control & NKV_MAILBOX_DOORBELL))
			return ret;
		if (READ_ONCE(card->leaving))
			return -EIO;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		if (signal_pending(current))
			return -EINTR;
		usleep_range(100, 500);
	}
}

static int nkv_mailbox_take(struct nkv_card *card, struct nkv_card_mailbox *command, u64 *payload)
{
	u32 at = card->mailbox.at;
	u64 status, length;
	u32 i;
	int ret;

	ret = nkv_read(card, at + NKV_MAILBOX_STATUS, &status);
	if (!ret)
		ret = nkv_read(card, at + NKV_MAILBOX_COMMAND, &length);
	if (ret)
		return ret;
	command->status = FIELD_GET(NKV_MAILBOX_RETURNED, status);
	command->payload_bytes = FIELD_GET(NKV_MAILBOX_LENGTH, length);
	if (command->payload_bytes > NKV_MAILBOX_BYTES)
		return -EIO;
	if (command->payload_bytes > command->room_bytes)
		return -EMSGSIZE;
	for (i = 0; !ret && i < DIV_ROUND_UP(command->payload_bytes, 8); i++)
		ret = nkv_read(card, at + NKV_MAILBOX_PAYLOAD + 8 * i, &payload[i]);
	return ret;
}

/**
 * nkv_mailbox_execute - Has the firmware execute a command
 * @card: card->alive is held for reading.
 * @command: Its own payload is not looked at.
 * @payload: NKV_MAILBOX_BYTES of the driver's, which hold the answer then.
 */
int nkv_mailbox_execute(struct nkv_card *card, struct nkv_card_mailbox *command, u64 *payload)
{
	int ret;

	ret = card->mailbox.at ? mutex_lock_interruptible(&card->mailbox.lock) : -EOPNOTSUPP;
	if (ret)
		return ret;
	ret = nkv_mailbox_give(card, command, payload);
	if (!ret)
		ret = nkv_mailbox_await(card);
	if (!ret)
		ret = nkv_mailbox_take(card, command, payload);
	mutex_unlock(&card->mailbox.lock);
	return ret;
}

/**
 * nkv_mailbox_call - Has the firmware execute a process's command
 * @card: The card.
 * @command: Whose payload is the caller's.
 */
int nkv_mailbox_call(struct nkv_card *card, struct nkv_card_mailbox *command)
{
	void __user *user = u64_to_user_ptr(command->payload);
	u64 *payload;
	int ret;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (command->reserved || command->payload_bytes > NKV_MAILBOX_BYTES)
		return -EINVAL;
	payload = kzalloc(NKV_MAILBOX_BYTES, GFP_KERNEL_ACCOUNT);
	if (!payload)
		return -ENOMEM;
	ret = copy_from_user(payload, user, command->payload_bytes) ? -EFAULT : 0;
	if (!ret)
		ret = nkv_card_enter(card);
	if (!ret) {
		ret = nkv_mailbox_execute(card, command, payload);
		nkv_card_leave(card);
	}
	if (!ret && copy_to_user(user, payload, command->payload_bytes))
		ret = -EFAULT;
	kfree(payload);
	return ret;
}
