/* SPDX-License-Identifier: GPL-2.0 */
/* A hotness monitoring unit of the CXL specification (CHMU) among a card's registers. */
#ifndef NEARKV_CHMU_H
#define NEARKV_CHMU_H

#include <linux/types.h>

struct nkv_card;
struct nkv_card_hotness;

struct nkv_chmu {
	u32 at; /* Offsets of its instance, its bitmap of ranges and its hot list. */
	u32 ranges_at;
	u32 list_at;
	unsigned int blocks;  /* Of 256 MiB, that the bitmap has bits for. */
	unsigned int entries; /* Of the hot list; 0: there is no such unit. */
	unsigned int counter_bits;
	u64 capabilities[2];
};

/* What lies in a hot list. */
struct nkv_hot_list {
	unsigned int head; /* Index of the first entry. */
	unsigned int used;
	bool lost;    /* Since the last look. */
	bool enabled; /* The unit counts. */
};

int nkv_chmu_find(struct nkv_card *card, u32 block, struct nkv_chmu *chmu);
int nkv_chmu_check(const struct nkv_chmu *chmu, const struct nkv_card_hotness *wanted);
int nkv_chmu_start(struct nkv_card *card, const struct nkv_chmu *chmu,
		   const struct nkv_card_hotness *wanted);
int nkv_chmu_stop(struct nkv_card *card, const struct nkv_chmu *chmu);
int nkv_chmu_look(struct nkv_card *card, const struct nkv_chmu *chmu, struct nkv_hot_list *list);
int nkv_chmu_read(struct nkv_card *card, const struct nkv_chmu *chmu,
		  const struct nkv_hot_list *list, u64 *entries, unsigned int count);
int nkv_chmu_free(struct nkv_card *card, const struct nkv_chmu *chmu,
		  const struct nkv_hot_list *list, unsigned int count);
u64 nkv_chmu_unit_bytes(const struct nkv_chmu *chmu);

#endif /* NEARKV_CHMU_H */
