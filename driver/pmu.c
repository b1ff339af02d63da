// SPDX-License-Identifier: GPL-2.0
/*
 * PMUs come with the first card of a number and stay: see struct nkv_pmus. What is told of a card
 * that has gone is -ENODEV to who opens an event, and a count that stands still to who has one.
 */
#include <linux/slab.h>

#include "card.h"

static struct nkv_pmus *nkv_all_pmus[NKV_CARD_MAX]; /* By the cards' numbers. */

static struct nkv_pmus *nkv_pmus_new(const struct nkv_card *card)
{
	struct nkv_pmus *pmus = kzalloc(sizeof(*pmus), GFP_KERNEL);

	if (!pmus)
		return NULL;
	mutex_init(&pmus->lock);
	pmus->counters = nkv_counters_pmu;
	pmus->hotness = nkv_hotness_pmu;
	snprintf(pmus->counters_name, sizeof(pmus->counters_name), "%s", card->name);
	snprintf(pmus->hotness_name, sizeof(pmus->hotness_name), "%s_hotness", card->name);
	if (perf_pmu_register(&pmus->counters, pmus->counters_name, -1))
		goto free;
	if (perf_pmu_register(&pmus->hotness, pmus->hotness_name, -1))
		goto unregister;
	return pmus;

unregister:
	/* No event was possible: it has no card. */
	perf_pmu_unregister(&pmus->counters);
free:
	kfree(pmus);
	return NULL;
}

/**
 * nkv_pmus_add - Shows perf a card
 * @card: Nobody else uses its registers.
 *
 * A card works without.
 */
void nkv_pmus_add(struct nkv_card *card)
{
	struct nkv_pmus **pmus = &nkv_all_pmus[card->id];

	if (!*pmus)
		*pmus = nkv_pmus_new(card);
	if (!*pmus) {
		dev_warn(&card->pdev->dev, "perf sees nothing of %s\n", card->name);
		return;
	}
	mutex_lock(&(*pmus)->lock);
	(*pmus)->card = card;
	mutex_unlock(&(*pmus)->lock);
}

/**
 * nkv_pmus_remove - No event of a card comes into being any more
 * @card: One that nkv_pmus_add() had.
 */
void nkv_pmus_remove(struct nkv_card *card)
{
	struct nkv_pmus *pmus = nkv_all_pmus[card->id];

	if (!pmus)
		return;
	mutex_lock(&pmus->lock);
	pmus->card = NULL;
	mutex_unlock(&pmus->lock);
}

/**
 * nkv_pmus_card - The card that PMUs are of
 * @pmus: Its PMUs.
 *
 * With a reference, or NULL.
 */
struct nkv_card *nkv_pmus_card(struct nkv_pmus *pmus)
{
	struct nkv_card *card;

	mutex_lock(&pmus->lock);
	card = pmus->card;
	if (card)
		kref_get(&card->ref);
	mutex_unlock(&pmus->lock);
	return card;
}

/**
 * nkv_pmus_exit - The module goes: there are no cards and no events
 */
void nkv_pmus_exit(void)
{
	unsigned int i;

	for (i = 0; i < NKV_CARD_MAX; i++) {
		if (!nkv_all_pmus[i])
			continue;
		perf_pmu_unregister(&nkv_all_pmus[i]->counters);
		perf_pmu_unregister(&nkv_all_pmus[i]->hotness);
		kfree(nkv_all_pmus[i]);
	}
}
