/* SPDX-License-Identifier: GPL-2.0 */
/* What perf sees of a card: its engine's counters and its hot lists. */
#ifndef NEARKV_PMU_H
#define NEARKV_PMU_H

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/workqueue.h>

#include "chmu.h"
#include "nkv_abi.h"
#include "nkv_card.h"

#define NKV_TOTALS	  7 /* TOTAL registers that a file may see: enum card_counter. */
#define NKV_MONITORS	  2 /* enum card_monitor */
#define NKV_PMU_LAG	  msecs_to_jiffies(NKV_CARD_LAG_MS)
#define NKV_ENTRIES_TAKEN 64 /* Of a hot list, at a time. */

/* Sums over all queues, since the card came. */
struct nkv_counters {
	atomic64_t sum[NKV_TOTALS];
	u64 last[NKV_MAX_QUEUES][NKV_TOTALS]; /* Under card->lock. */
	struct mutex users_lock;
	unsigned int users; /* Events. */
	struct delayed_work work;
};

/* A hotness monitor and the event that has it. */
struct nkv_monitor {
	struct nkv_card *card;
	struct nkv_chmu chmu;
	struct mutex lock; /* Its registers, and whether an event has it. */
	struct perf_event *event;
	struct nkv_card_hotness wanted; /* By it. */
	struct delayed_work work;
	bool lost; /* Entries, of which no record says so yet. */
	u64 entries[NKV_ENTRIES_TAKEN];
};

/*
 * The PMUs of all cards that have had a number, one at a time. Up to Linux 6.14 perf cannot have a
 * PMU taken from under its events: these stay until the module goes, which events hold.
 */
struct nkv_pmus {
	struct mutex lock;     /* Of `card`. */
	struct nkv_card *card; /* NULL: there is none of this number now. */
	struct pmu counters;
	struct pmu hotness;
	char counters_name[20];
	char hotness_name[32];
};

/* pmu.c */
void nkv_pmus_add(struct nkv_card *card);
void nkv_pmus_remove(struct nkv_card *card);
void nkv_pmus_exit(void);
struct nkv_card *nkv_pmus_card(struct nkv_pmus *pmus);

/* counters.c */
void nkv_counters_init(struct nkv_card *card);
int nkv_counters_sample(struct nkv_card *card);
void nkv_counters_restart(struct nkv_card *card);
extern const struct pmu nkv_counters_pmu;

/* hotness.c */
void nkv_hotness_init(struct nkv_card *card);
extern const struct pmu nkv_hotness_pmu;

/* hotness_sysfs.c */
extern const struct attribute_group *nkv_hotness_groups[];

#endif /* NEARKV_PMU_H */
