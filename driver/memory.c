// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory: the addresses of a CXL region that the kernel's own drivers made, claimed while
 * nobody else uses them (no DAX driver bound, not system RAM), and divided into windows. Behind the
 * windows lie the doorbells.
 */
#include <linux/ioport.h>
#include <linux/slab.h>

#include "card.h"

#define NKV_SPACE_BIAS PAGE_SIZE /* genalloc takes address 0 for a failure. */

/*
 * Addresses that an engine may still write, though its card has let go of them: nobody's until a
 * card of this serial number has been reset. Those that are left when the module goes stay so.
 */
struct nkv_claim {
	struct list_head list;
	u64 serial;
	phys_addr_t at;
	u64 bytes;
	char name[20];
};

static LIST_HEAD(nkv_claims);
static DEFINE_MUTEX(nkv_claims_lock);

/* The card's claim stays, and is the card's no longer. */
static void nkv_memory_abandon(struct nkv_card *card)
{
	struct nkv_claim *claim = kzalloc(sizeof(*claim), GFP_KERNEL);

	dev_err(&card->pdev->dev,
		"%s: may still write its memory, which is nobody's until a reset\n", card->name);
	if (claim) {
		claim->serial = card->serial;
		claim->at = card->memory_at;
		claim->bytes = card->memory_bytes;
		strscpy(claim->name, card->name, sizeof(claim->name));
		mutex_lock(&nkv_claims_lock);
		list_add(&claim->list, &nkv_claims);
		mutex_unlock(&nkv_claims_lock);
	}
	card->claimed->name = claim ? claim->name : NULL; /* The card's goes with it. */
	card->claimed = NULL;
}

static void nkv_memory_reclaim(struct nkv_card *card)
{
	struct nkv_claim *claim, *next;

	mutex_lock(&nkv_claims_lock);
	list_for_each_entry_safe(claim, next, &nkv_claims, list) {
		if (claim->serial != card->serial)
			continue;
		release_mem_region(claim->at, claim->bytes);
		list_del(&claim->list);
		kfree(claim);
	}
	mutex_unlock(&nkv_claims_lock);
}

static int nkv_memory_prove(struct nkv_card *card)
{
	int ret = nkv_queue_probe(card, 0);

	if (!ret)
		ret = nkv_queue_probe(card, card->memory_bytes - PAGE_SIZE);
	if (ret == -ENXIO)
		dev_err(&card->pdev->dev,
			"the engine sees other memory: another card's, or interleaved?\n");
	return ret;
}

static void nkv_memory_release(struct nkv_card *card)
{
	if (card->space)
		gen_pool_destroy(card->space);
	if (card->memory)
		memunmap(card->memory);
	if (card->claimed)
		release_mem_region(card->memory_at, card->memory_bytes);
	card->space = NULL;
	card->memory = NULL;
	card->claimed = NULL;
	card->memory_bytes = 0;
}

static int nkv_memory_take(struct nkv_card *card, phys_addr_t at, u64 bytes)
{
	u64 device_bytes;
	int ret;

	ret = nkv_read(card, NKV_REG_MEMORY_BYTES, &device_bytes);
	if (ret)
		return ret;
	if (bytes > device_bytes)
		return -EINVAL;
	card->claimed = request_mem_region(at, bytes, card->name);
	if (!card->claimed)
		return -EBUSY;
	card->memory_at = at;
	card->memory_bytes = bytes;
	card->memory = memremap(at, bytes, card->transport->coherent ? MEMREMAP_WB : MEMREMAP_WC);
	if (!card->memory)
		return -ENOMEM;
	card->space = gen_pool_create(PAGE_SHIFT, dev_to_node(&card->pdev->dev));
	if (!card->space)
		return -ENOMEM;
	ret = gen_pool_add(card->space, NKV_SPACE_BIAS, nkv_doorbell_at(card, 0), -1);
	if (!ret)
		ret = nkv_memory_prove(card);
	if (!ret)
		ret = nkv_write(card, NKV_REG_DOORBELL_BASE, nkv_doorbell_at(card, 0));
	return ret;
}

static void nkv_window_free(struct nkv_card *card, struct nkv_window *window)
{
	gen_pool_free(card->space, window->at + NKV_SPACE_BIAS, window->bytes);
	list_del(&window->list);
	kfree(window);
}

/**
 * nkv_memory_attach - Takes a range of the machine's addresses as the card's memory
 * @card: card->alive is held for reading.
 * @at: A page's first byte: address 0 of device memory.
 * @bytes: A multiple of the page size.
 *
 * -EBUSY: memory is attached, or somebody uses the range; -EINVAL: not within CXL memory, or larger
 * than the card's; -ENXIO: the engine sees other memory.
 */
int nkv_memory_attach(struct nkv_card *card, phys_addr_t at, u64 bytes)
{
	int ret;

	if (!PAGE_ALIGNED(at) || !PAGE_ALIGNED(bytes) || bytes < 2 * NKV_DOORBELLS_BYTES ||
	    at + bytes < at)
		return -EINVAL;
	if (region_intersects(at, bytes, IORESOURCE_MEM, IORES_DESC_CXL) != REGION_INTERSECTS)
		return -EINVAL;
	nkv_tenants_refresh(card); /* It said so if it cannot; queues need no firmware. */
	mutex_lock(&card->lock);
	ret = -EBUSY;
	if (!card->claimed) {
		ret = nkv_memory_take(card, at, bytes);
		if (ret && card->claimed && nkv_queues_stuck(card))
			nkv_memory_abandon(card);
		if (ret)
			nkv_memory_release(card);
	}
	mutex_unlock(&card->lock);
	return ret;
}

/**
 * nkv_memory_detach - Gives the addresses back
 * @card: card->alive is held.
 *
 * -EBUSY: there are windows, kept ones among them; -EIO: the link has failed, and the engine may
 * still write what files have given back.
 */
int nkv_memory_detach(struct nkv_card *card)
{
	int ret = -EBUSY;

	if (card->frozen)
		return -EIO;
	mutex_lock(&card->lock);
	if (list_empty(&card->windows)) {
		nkv_memory_release(card);
		ret = 0;
	}
	mutex_unlock(&card->lock);
	return ret;
}

/**
 * nkv_memory_lose - The card goes, and all windows with it
 * @card: card->alive is held for writing; nothing of memory is mapped by files.
 * @still: Its engine does not work any more.
 */
void nkv_memory_lose(struct nkv_card *card, bool still)
{
	struct nkv_window *window, *next;
	struct nkv_file *file;

	mutex_lock(&card->lock);
	list_for_each_entry(file, &card->files, list)
		file->window = NULL;
	list_for_each_entry_safe(window, next, &card->windows, list)
		nkv_window_free(card, window);
	if (card->claimed && !still)
		nkv_memory_abandon(card);
	nkv_memory_release(card);
	mutex_unlock(&card->lock);
}

/**
 * nkv_memory_free_bytes - What no window has
 * @card: card->lock is held.
 */
u64 nkv_memory_free_bytes(struct nkv_card *card)
{
	return card->space ? gen_pool_avail(card->space) : 0;
}

static struct nkv_window *nkv_window_find(struct nkv_card *card, const char *name)
{
	struct nkv_window *window;

	list_for_each_entry(window, &card->windows, list)
		if (window->keep && uid_eq(window->owner, current_euid()) &&
		    !memcmp(window->name, name, sizeof(window->name)))
			return window;
	return NULL;
}

/**
 * nkv_window_wipe - Makes a new window read as zeros
 * @card: card->alive is held, and not card->lock.
 * @window: The caller's alone. One that was kept has been wiped before, and stays as it is.
 */
int nkv_window_wipe(struct nkv_card *card, struct nkv_window *window)
{
	const u64 chunk = SZ_1M;
	u64 done;
	int ret = 0;

	if (window->clean)
		return 0;
	if (card->transport->wipe) {
		ret = card->transport->wipe(card, window->at, window->bytes);
	} else {
		for (done = 0; done < window->bytes; done += chunk) {
			memset(card->memory + window->at + done, 0,
			       min(chunk, window->bytes - done));
			cond_resched();
		}
		wmb(); /* Zeros, before somebody else's stores or the engine's. */
	}
	window->clean = !ret;
	return ret;
}

static int nkv_window_make(struct nkv_card *card, const struct nkv_card_window *wanted,
			   struct nkv_window **made)
{
	struct nkv_window *window;
	unsigned long place;

	if (wanted->bytes == 0 || !PAGE_ALIGNED(wanted->bytes))
		return -EINVAL;
	if (!nkv_tenant_may_have_window(card, wanted->bytes))
		return -EDQUOT;
	window = kzalloc(sizeof(*window), GFP_KERNEL_ACCOUNT);
	if (!window)
		return -ENOMEM;
	place = gen_pool_alloc(card->space, wanted->bytes);
	if (!place) {
		kfree(window);
		return -ENOSPC;
	}
	window->at = place - NKV_SPACE_BIAS;
	window->bytes = wanted->bytes;
	window->owner = current_euid();
	window->keep = wanted->flags & NKV_CARD_WINDOW_FLAG_KEEP;
	memcpy(window->name, wanted->name, sizeof(window->name));
	list_add(&window->list, &card->windows);
	*made = window;
	return 0;
}

static bool nkv_window_acceptable(const struct nkv_card_window *wanted)
{
	size_t length = strnlen((const char *)wanted->name, sizeof(wanted->name));
	bool named = length != 0;

	return !wanted->reserved && !(wanted->flags & ~NKV_CARD_WINDOW_FLAG_ALL) &&
	       !memchr_inv(wanted->name + length, 0, sizeof(wanted->name) - length) &&
	       named == !!(wanted->flags & NKV_CARD_WINDOW_FLAG_KEEP) &&
	       (named || !(wanted->flags & NKV_CARD_WINDOW_FLAG_MUST_EXIST));
}

/**
 * nkv_window_take - Finds or makes a window for a file
 * @card: card->lock is held, and card->alive.
 * @wanted: As the caller has it.
 * @window: Set unless it fails; nkv_window_wipe() it before anybody sees it.
 */
int nkv_window_take(struct nkv_card *card, const struct nkv_card_window *wanted,
		    struct nkv_window **window)
{
	struct nkv_window *found = NULL;
	int ret;

	if (!nkv_window_acceptable(wanted))
		return -EINVAL;
	if (!card->claimed)
		return -ENXIO;
	if (wanted->flags & NKV_CARD_WINDOW_FLAG_KEEP)
		found = nkv_window_find(card, wanted->name);
	if (found) {
		if (found->in_use)
			return -EBUSY;
		if (wanted->bytes && wanted->bytes != found->bytes)
			return -EINVAL;
	} else {
		if (wanted->flags & NKV_CARD_WINDOW_FLAG_MUST_EXIST)
			return -ENOENT;
		ret = nkv_window_make(card, wanted, &found);
		if (ret)
			return ret;
	}
	found->in_use = true;
	*window = found;
	return 0;
}

/**
 * nkv_window_give_back - A file needs its window no longer
 * @card: card->lock is held.
 * @window: The file's.
 * @orphan: One of its queues is stuck, and may still write it.
 */
void nkv_window_give_back(struct nkv_card *card, struct nkv_window *window, bool orphan)
{
	if (orphan)
		window->orphan = true;
	else if (window->keep)
		window->in_use = false;
	else
		nkv_window_free(card, window);
}

/**
 * nkv_windows_adopt - The engine has been reset: no queue is stuck any more
 * @card: card->alive is held for writing, or nobody else knows the card yet.
 */
void nkv_windows_adopt(struct nkv_card *card)
{
	struct nkv_window *window, *next;

	mutex_lock(&card->lock);
	list_for_each_entry_safe(window, next, &card->windows, list) {
		if (window->orphan) {
			window->orphan = false;
			nkv_window_give_back(card, window, false);
		}
	}
	mutex_unlock(&card->lock);
	nkv_memory_reclaim(card);
}
