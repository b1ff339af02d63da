// SPDX-License-Identifier: GPL-2.0
/* The module: cards come, are reset and go. */
#include <linux/anon_inodes.h>
#include <linux/debugfs.h>
#include <linux/file.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "card.h"

static DEFINE_IDA(nkv_ids);
static struct dentry *nkv_debug;
static const struct file_operations nkv_no_operations;

/**
 * nkv_card_release - Nobody knows the card any more
 * @ref: The card's.
 */
void nkv_card_release(struct kref *ref)
{
	struct nkv_card *card = container_of(ref, struct nkv_card, ref);

	/* At once: its operations go with the module, which may be going. */
	if (card->mappings)
		__fput_sync(card->mappings);
	kfree(card);
}

/**
 * nkv_card_hold - Has whoever waits for the engine stop it, and keeps all others out
 * @card: card->alive is held for writing afterwards.
 */
void nkv_card_hold(struct nkv_card *card)
{
	WRITE_ONCE(card->leaving, true);
	down_write(&card->alive);
	WRITE_ONCE(card->leaving, false);
}

static int nkv_card_reset_held(struct nkv_card *card)
{
	int ret;

	if (card->gone)
		return -ENODEV;
	nkv_counters_sample(card); /* As far as it answers: a reset may be what it needs. */
	ret = nkv_reset(card);
	if (ret)
		return ret;
	nkv_counters_restart(card);
	nkv_queues_cancel(card);
	nkv_windows_adopt(card);
	return 0;
}

/**
 * nkv_card_reset - Ends what the engine does
 * @card: Its files keep their windows and lose their queues.
 */
int nkv_card_reset(struct nkv_card *card)
{
	int ret;

	nkv_card_hold(card);
	ret = nkv_card_reset_held(card);
	up_write(&card->alive);
	return ret;
}

static irqreturn_t nkv_event_interrupt(int irq, void *data)
{
	struct nkv_event *event = data;
	struct nkv_card *card = event->card;
	unsigned int vector = event - card->events;

	if (card->transport->acknowledge)
		card->transport->acknowledge(card, vector);
	if (vector == NKV_VECTOR_ERRORS)
		atomic64_inc(&card->errors);
	return IRQ_HANDLED;
}

static void nkv_free_interrupts(struct nkv_card *card, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		int irq = pci_irq_vector(card->pdev, i);

		if (i < NKV_VECTOR_QUEUES)
			free_irq(irq, &card->events[i]);
		else
			free_irq(irq, &card->queues[i - NKV_VECTOR_QUEUES]);
	}
	pci_free_irq_vectors(card->pdev);
}

static int nkv_request_interrupts(struct nkv_card *card)
{
	unsigned int i;
	int ret;

	ret = pci_alloc_irq_vectors(card->pdev, NKV_CARD_VECTORS, NKV_CARD_VECTORS, PCI_IRQ_MSIX);
	if (ret < 0)
		return ret;
	for (i = 0; i < NKV_CARD_VECTORS; i++) {
		int irq = pci_irq_vector(card->pdev, i);

		if (i < NKV_VECTOR_QUEUES)
			ret = request_irq(irq, nkv_event_interrupt, 0, card->name,
					  &card->events[i]);
		else
			ret = request_irq(irq, nkv_queue_interrupt, 0, card->name,
					  &card->queues[i - NKV_VECTOR_QUEUES]);
		if (ret) {
			nkv_free_interrupts(card, i);
			return ret;
		}
	}
	return 0;
}

static int nkv_add(struct nkv_card *card)
{
	int ret;

	card->mappings =
		anon_inode_create_getfile(card->name, &nkv_no_operations, NULL, O_RDWR, NULL);
	if (IS_ERR(card->mappings)) {
		ret = PTR_ERR(card->mappings);
		card->mappings = NULL;
		return ret;
	}
	card->misc.minor = MISC_DYNAMIC_MINOR;
	card->misc.name = card->name;
	card->misc.fops = &nkv_file_operations;
	card->misc.parent = &card->pdev->dev;
	card->misc.mode = 0600;
	ret = misc_register(&card->misc);
	if (ret)
		return ret; /* The last reference puts what came before. */
	card->debug = debugfs_create_dir(card->name, nkv_debug);
	debugfs_create_u32("drop_interrupts", 0600, card->debug, &card->drop_interrupts);
	debugfs_create_u32("fail_registers", 0600, card->debug, &card->fail_registers);
	debugfs_create_u32("fail_after", 0600, card->debug, &card->fail_after);
	return 0;
}

static struct nkv_card *nkv_card_new(struct pci_dev *pdev)
{
	struct nkv_card *card = kzalloc(sizeof(*card), GFP_KERNEL);
	unsigned int i;

	if (!card)
		return NULL;
	kref_init(&card->ref);
	card->pdev = pdev;
	init_rwsem(&card->alive);
	mutex_init(&card->lock);
	INIT_LIST_HEAD(&card->windows);
	INIT_LIST_HEAD(&card->files);
	nkv_counters_init(card);
	for (i = 0; i < NKV_VECTOR_QUEUES; i++)
		card->events[i].card = card;
	for (i = 0; i < NKV_MAX_QUEUES; i++) {
		card->queues[i].card = card;
		spin_lock_init(&card->queues[i].lock);
	}
	card->id = ida_alloc_max(&nkv_ids, NKV_CARD_MAX - 1, GFP_KERNEL);
	if (card->id < 0) {
		kref_put(&card->ref, nkv_card_release);
		return NULL;
	}
	snprintf(card->name, sizeof(card->name), "nearkv%d", card->id);
	return card;
}

static int nkv_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct nkv_card *card;
	int ret;

	card = nkv_card_new(pdev);
	if (!card)
		return -ENOMEM;
	ret = pci_enable_device(pdev);
	if (ret)
		goto put;
	ret = pci_request_regions(pdev, "nearkv");
	if (ret)
		goto disable;
	pci_set_master(pdev);
	ret = nkv_transport_open(card);
	if (ret)
		goto close;
	/* What an earlier driver left. */
	ret = nkv_reset(card);
	if (ret)
		goto close;
	nkv_windows_adopt(card);
	ret = nkv_request_interrupts(card);
	if (ret)
		goto close;
	pci_set_drvdata(pdev, card);
	pci_save_state(pdev); /* What a reset of the slot loses. */
	nkv_hotness_init(card);
	nkv_mailbox_find(card);
	ret = nkv_add(card);
	if (ret)
		goto interrupts;
	nkv_pmus_add(card);
	dev_info(&pdev->dev, "%s: serial %#llx, by %s\n", card->name, card->serial,
		 card->transport->name);
	return 0;

interrupts:
	nkv_free_interrupts(card, NKV_CARD_VECTORS);
close:
	nkv_transport_close(card);
	pci_release_regions(pdev);
disable:
	pci_disable_device(pdev);
put:
	ida_free(&nkv_ids, card->id);
	kref_put(&card->ref, nkv_card_release);
	return ret;
}

static void nkv_remove(struct pci_dev *pdev)
{
	struct nkv_card *card = pci_get_drvdata(pdev);
	bool still = true;

	debugfs_remove(card->debug);
	nkv_pmus_remove(card);
	misc_deregister(&card->misc);
	nkv_card_hold(card);
	if (pci_device_is_present(pdev)) /* Else its memory has gone, too. */
		still = !nkv_reset(card);
	/* Who is told that the card has gone reads nothing of it any more. */
	unmap_mapping_range(card->mappings->f_mapping, 0, 0, 1);
	WRITE_ONCE(card->gone, true);
	nkv_queues_cancel(card);
	nkv_memory_lose(card, still);
	up_write(&card->alive);
	nkv_free_interrupts(card, NKV_CARD_VECTORS);
	nkv_transport_close(card);
	pci_release_regions(pdev);
	pci_disable_device(pdev);
	dev_info(&pdev->dev, "%s: removed\n", card->name);
	/* The next card may have the name, though files of this one may still be open. */
	ida_free(&nkv_ids, card->id);
	kref_put(&card->ref, nkv_card_release);
}

/* A card carries the numbers of whoever builds it: new_id in the driver's folder adds them. */
static const struct pci_device_id nkv_pci_ids[] = {
	{ PCI_DEVICE_SUB(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x1110, PCI_SUBVENDOR_ID_REDHAT_QUMRANET,
			 PCI_SUBDEVICE_ID_QEMU) },
	{}
};
MODULE_DEVICE_TABLE(pci, nkv_pci_ids);

static struct pci_driver nkv_driver = {
	.name = "nearkv",
	.id_table = nkv_pci_ids,
	.probe = nkv_probe,
	.remove = nkv_remove,
	.dev_groups = nkv_groups,
	.err_handler = &nkv_error_handlers,
};

static int __init nkv_init(void)
{
	int ret;

	nkv_debug = debugfs_create_dir("nearkv", NULL);
	ret = pci_register_driver(&nkv_driver);
	if (ret)
		debugfs_remove(nkv_debug);
	return ret;
}

static void __exit nkv_exit(void)
{
	pci_unregister_driver(&nkv_driver);
	nkv_pmus_exit();
	debugfs_remove(nkv_debug);
	ida_destroy(&nkv_ids);
}

module_init(nkv_init);
module_exit(nkv_exit);
MODULE_DESCRIPTION("NearKV: compute beside the memory that holds a KV cache");
MODULE_AUTHOR("The NearKV authors");
MODULE_LICENSE("GPL");
