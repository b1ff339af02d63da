// SPDX-License-Identifier: GPL-2.0
/*
 * Registers: those of a card lie in its BAR 0. An emulated function (QEMU's ivshmem-doorbell) has
 * shared memory instead, from which the emulator's device process takes one request at a time.
 */
#include <linux/delay.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/jiffies.h>
#include <linux/sched.h>

#include "card.h"

#define NKV_BRIDGE_TIMEOUT   (10 * HZ) /* A simulated engine takes its time. */
#define NKV_BRIDGE_SPINS     2000
#define NKV_RESET_TIMEOUT    (20 * HZ) /* So does its memory. */
#define NKV_REGISTERS_BYTES  (NKV_CARD_MANAGEMENT_AT + NKV_CARD_MANAGEMENT_BYTES)
#define NKV_IVSHMEM_DOORBELL 12		   /* In BAR 0: peer << 16 | vector. */
#define NKV_IVSHMEM_DEVICE   (0 << 16 | 0) /* The device process is peer 0, its vector 0. */

static int nkv_bar_read(struct nkv_card *card, u32 offset, u64 *value)
{
	*value = readq(card->registers + offset);
	/* A card that is gone reads as all ones; so does no register that it has. */
	if (*value == U64_MAX && !pci_device_is_present(card->pdev))
		return -EIO;
	return 0;
}

static int nkv_bar_write(struct nkv_card *card, u32 offset, u64 value)
{
	writeq(value, card->registers + offset);
	return 0;
}

/* In an interrupt. Its line may rise again from here on. */
static void nkv_bar_acknowledge(struct nkv_card *card, unsigned int vector)
{
	writeq(BIT_ULL(vector), card->registers + NKV_REG_INTERRUPT_STATUS);
}

static const struct nkv_transport nkv_bar = {
	.name = "registers",
	.coherent = false,
	.acknowledge = nkv_bar_acknowledge,
	.read = nkv_bar_read,
	.write = nkv_bar_write,
};

/* Waits for a request's answer. */
static int nkv_bridge_await(struct nkv_card *card, u32 request, unsigned long deadline)
{
	unsigned int spins = 0;

	while (readl(&card->bridge->answer) != request) {
		if (READ_ONCE(card->leaving) || time_after(jiffies, deadline))
			return -EIO;
		if (++spins < NKV_BRIDGE_SPINS)
			cpu_relax();
		else
			usleep_range(50, 200);
	}
	return 0;
}

/* Puts a request and waits for its answer. */
static int nkv_bridge_call(struct nkv_card *card, u8 operation, u64 address, u64 bytes, u64 *value)
{
	struct nkv_card_bridge __iomem *bridge = card->bridge;
	unsigned long deadline = jiffies + NKV_BRIDGE_TIMEOUT;
	u32 request;
	int ret;

	mutex_lock(&card->transport_lock);
	request = readl(&bridge->request);
	/* Until a late answer has come the page is the function's. */
	ret = nkv_bridge_await(card, request++, deadline);
	if (ret)
		goto out;
	writeb(operation, &bridge->operation);
	writeq(address, &bridge->address);
	writeq(*value, &bridge->value);
	writeq(bytes, &bridge->bytes);
	wmb(); /* The count says that all before it is there. */
	writel(request, &bridge->request);
	writel(NKV_IVSHMEM_DEVICE, card->doorbell + NKV_IVSHMEM_DOORBELL);
	ret = nkv_bridge_await(card, request, deadline);
	rmb(); /* And so does this one. */
	if (!ret)
		*value = readq(&bridge->value);
out:
	mutex_unlock(&card->transport_lock);
	return ret;
}

static int nkv_bridge_read(struct nkv_card *card, u32 offset, u64 *value)
{
	*value = 0;
	return nkv_bridge_call(card, NKV_CARD_OPERATION_READ, offset, 0, value);
}

static int nkv_bridge_write(struct nkv_card *card, u32 offset, u64 value)
{
	return nkv_bridge_call(card, NKV_CARD_OPERATION_WRITE, offset, 0, &value);
}

static int nkv_bridge_wipe(struct nkv_card *card, u64 at, u64 bytes)
{
	u64 value = 0;

	return nkv_bridge_call(card, NKV_CARD_OPERATION_WIPE, at, bytes, &value);
}

static const struct nkv_transport nkv_bridge = {
	.name = "bridge",
	.coherent = true, /* QEMU models no caches. */
	.read = nkv_bridge_read,
	.write = nkv_bridge_write,
	.wipe = nkv_bridge_wipe,
};

static int nkv_bridge_open(struct nkv_card *card)
{
	u32 version;

	if (pci_resource_len(card->pdev, 2) < NKV_CARD_SHARED_BYTES)
		return -ENODEV;
	card->doorbell = pci_iomap(card->pdev, 0, 0);
	card->bridge = pci_iomap(card->pdev, 2, NKV_CARD_SHARED_BYTES);
	if (!card->doorbell || !card->bridge)
		return -ENOMEM;
	if (readl(&card->bridge->magic) != NKV_CARD_BRIDGE_MAGIC)
		return -ENODEV; /* Somebody else's shared memory. */
	version = readl(&card->bridge->version);
	if (version != NKV_CARD_BRIDGE_VERSION) {
		dev_err(&card->pdev->dev, "bridge of version %u; this driver knows %u\n", version,
			NKV_CARD_BRIDGE_VERSION);
		return -ENODEV;
	}
	card->serial = readq(&card->bridge->serial);
	card->transport = &nkv_bridge;
	return 0;
}

static int nkv_bar_open(struct nkv_card *card)
{
	if (pci_resource_len(card->pdev, 0) < NKV_REGISTERS_BYTES)
		return -ENODEV;
	card->registers = pci_iomap(card->pdev, 0, NKV_REGISTERS_BYTES);
	if (!card->registers)
		return -ENODEV;
	card->serial = pci_get_dsn(card->pdev);
	card->transport = &nkv_bar;
	return 0;
}

/* Whether an access fails: the link does, or debugfs asked for it. */
static bool nkv_fails(struct nkv_card *card)
{
	u32 left = READ_ONCE(card->fail_registers);
	u32 after = READ_ONCE(card->fail_after);

	if (card->frozen)
		return true;
	if (likely(!left))
		return false;
	if (after) {
		WRITE_ONCE(card->fail_after, after - 1);
		return false;
	}
	WRITE_ONCE(card->fail_registers, left - 1);
	return true;
}

/**
 * nkv_read - Reads a register
 * @card: card->alive is held, or nobody else knows the card yet.
 * @offset: Of the contract.
 * @value: Set unless it fails.
 *
 * -EIO: the card does not answer.
 */
int nkv_read(struct nkv_card *card, u32 offset, u64 *value)
{
	return nkv_fails(card) ? -EIO : card->transport->read(card, offset, value);
}

/**
 * nkv_write - Writes a register
 * @card: As for nkv_read().
 * @offset: Of the contract.
 * @value: What it becomes.
 *
 * -EIO: the card does not answer.
 */
int nkv_write(struct nkv_card *card, u32 offset, u64 value)
{
	return nkv_fails(card) ? -EIO : card->transport->write(card, offset, value);
}

/**
 * nkv_reset - Has the engine end what it does
 * @card: As for nkv_read().
 *
 * Returns when the engine's memory has answered all that was asked of it, so that nothing of before
 * reaches memory any more. -EIO: the card does not answer; -ETIMEDOUT: its memory does not.
 */
int nkv_reset(struct nkv_card *card)
{
	unsigned long deadline = jiffies + NKV_RESET_TIMEOUT;
	int ret = nkv_write(card, NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
	u64 status;

	while (!ret) {
		ret = nkv_read(card, NKV_REG_DEVICE_STATUS, &status);
		if (ret || status & NKV_REG_DEVICE_STATUS_READY_MASK)
			break;
		if (time_after(jiffies, deadline))
			ret = -ETIMEDOUT;
		else
			usleep_range(10, 50);
	}
	return ret;
}

/**
 * nkv_transport_open - Finds out how a function's registers are reached
 * @card: Its pdev is enabled and its regions are ours.
 *
 * -ENODEV: no NearKV card is behind it, or one of another contract. After any failure too,
 * nkv_transport_close() undoes what was done.
 */
int nkv_transport_open(struct nkv_card *card)
{
	bool emulated = card->pdev->vendor == PCI_VENDOR_ID_REDHAT_QUMRANET;
	u64 id, abi;
	int ret;

	mutex_init(&card->transport_lock);
	ret = emulated ? nkv_bridge_open(card) : nkv_bar_open(card);
	if (ret)
		return ret;
	ret = nkv_read(card, NKV_REG_ID, &id);
	if (ret)
		return ret;
	if (id != NKV_ABI_ID) {
		dev_err(&card->pdev->dev, "not a NearKV card: register ID reads %#llx\n", id);
		return -ENODEV;
	}
	ret = nkv_read(card, NKV_REG_ABI, &abi);
	if (!ret)
		ret = nkv_read(card, NKV_REG_FEATURES, &card->features);
	if (ret)
		return ret;
	if ((abi & NKV_REG_ABI_MAJOR_MASK) >> NKV_REG_ABI_MAJOR_SHIFT != NKV_ABI_MAJOR) {
		dev_err(&card->pdev->dev, "contract %llu; this driver knows %u\n",
			(abi & NKV_REG_ABI_MAJOR_MASK) >> NKV_REG_ABI_MAJOR_SHIFT, NKV_ABI_MAJOR);
		return -ENODEV;
	}
	return 0;
}

/**
 * nkv_transport_close - Gives back what nkv_transport_open() took
 * @card: Nobody uses its registers any more.
 */
void nkv_transport_close(struct nkv_card *card)
{
	if (card->registers)
		pci_iounmap(card->pdev, card->registers);
	if (card->bridge)
		pci_iounmap(card->pdev, card->bridge);
	if (card->doorbell)
		pci_iounmap(card->pdev, card->doorbell);
}
