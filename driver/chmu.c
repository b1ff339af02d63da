// SPDX-License-Identifier: GPL-2.0
/*
 * A hotness monitoring unit's registers, as CXL 3.2 defines them. All are 64 bits wide. Functions
 * that take a card are called with card->alive held, one at a time for a unit; -EIO: the card does
 * not answer.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>

#include "card.h"
#include "chmu_registers.h"

/* An operation takes 100 ms at most, but a simulated unit counts its own time. */
#define NKV_CHMU_TIMEOUT (60 * HZ)
#define NKV_CHMU_TRIES	 3

/**
 * nkv_chmu_find - Learns what a unit is
 * @card: The card.
 * @block: Offset of its register block.
 * @chmu: Set unless it fails.
 *
 * -ENODEV: none that this driver knows.
 */
int nkv_chmu_find(struct nkv_card *card, u32 block, struct nkv_chmu *chmu)
{
	const u64 end = NKV_HOTNESS_WORDS * sizeof(u64) - CHMU_INSTANCE;
	u64 common = 0, ranges = 0, list = 0, status = 0;
	struct nkv_chmu found = { .at = block + CHMU_INSTANCE };
	u64 entries;
	int ret;

	ret = nkv_read(card, block + CHMU_COMMON_CAP0, &common);
	if (!ret && (FIELD_GET(CHMU_COMMON_CAP0_VERSION, common) != 1 ||
		     !FIELD_GET(CHMU_COMMON_CAP0_INSTANCES, common)))
		ret = -ENODEV;
	if (!ret)
		ret = nkv_read(card, found.at + CHMU_CAP0, &found.capabilities[0]);
	if (!ret)
		ret = nkv_read(card, found.at + CHMU_CAP1, &found.capabilities[1]);
	if (!ret)
		ret = nkv_read(card, found.at + CHMU_CAP2, &ranges);
	if (!ret)
		ret = nkv_read(card, found.at + CHMU_CAP3, &list);
	if (!ret)
		ret = nkv_read(card, found.at + CHMU_STATUS, &status);
	if (ret)
		return ret;
	entries = FIELD_GET(CHMU_CAP0_ENTRIES, found.capabilities[0]);
	found.counter_bits = FIELD_GET(CHMU_STATUS_COUNTER_BITS, status);
	if (entries < 2 || list > end || entries * sizeof(u64) > end - list || ranges > list ||
	    found.counter_bits == 0 || found.counter_bits > 32)
		return -ENODEV;
	found.ranges_at = found.at + ranges;
	found.list_at = found.at + list;
	found.blocks = (list - ranges) / sizeof(u64) * BITS_PER_TYPE(u64);
	found.entries = entries;
	*chmu = found;
	return 0;
}

static u64 nkv_chmu_epoch_us(u64 scale, u64 value)
{
	u64 unit = 100;

	while (scale-- > 1)
		unit *= 10;
	return value * unit;
}

static bool nkv_chmu_has_epoch(const struct nkv_chmu *chmu, u8 scale, u16 value)
{
	const u64 cap = chmu->capabilities[0];
	u64 us;

	if (scale < 1 || scale > CHMU_LONGEST_SCALE || !FIELD_FIT(CHMU_CONF1_EPOCH_VALUE, value))
		return false;
	us = nkv_chmu_epoch_us(scale, value);
	return us >= nkv_chmu_epoch_us(FIELD_GET(CHMU_CAP0_SHORTEST_SCALE, cap),
				       FIELD_GET(CHMU_CAP0_SHORTEST_VALUE, cap)) &&
	       us <= nkv_chmu_epoch_us(FIELD_GET(CHMU_CAP0_LONGEST_SCALE, cap),
				       FIELD_GET(CHMU_CAP0_LONGEST_VALUE, cap));
}

static bool nkv_chmu_has_mode(const struct nkv_chmu *chmu, const struct nkv_card_hotness *wanted)
{
	switch (wanted->mode) {
	case CHMU_MODE_EPOCHS:
		return chmu->capabilities[1] & CHMU_CAP1_EPOCHS &&
		       nkv_chmu_has_epoch(chmu, wanted->epoch_scale, wanted->epoch_value);
	case CHMU_MODE_ALWAYS_ON:
		return chmu->capabilities[1] & CHMU_CAP1_ALWAYS_ON;
	default:
		return false;
	}
}

/**
 * nkv_chmu_check - Whether a unit can do what is wanted
 * @chmu: The unit.
 * @wanted: Of a process.
 *
 * -EINVAL: it cannot. It may still refuse a threshold that its counters do not reach.
 */
int nkv_chmu_check(const struct nkv_chmu *chmu, const struct nkv_card_hotness *wanted)
{
	const u64 tracked = FIELD_GET(CHMU_CAP0_TRACKED, chmu->capabilities[0]);
	const u64 units = FIELD_GET(CHMU_CAP1_UNITS, chmu->capabilities[1]);
	const u64 sampling = FIELD_GET(CHMU_CAP1_DOWN_SAMPLING, chmu->capabilities[1]);
	unsigned int unit_bit = wanted->unit_log2 - CHMU_SMALLEST_UNIT_LOG2;
	bool possible;

	possible = !wanted->reserved && !wanted->reserved_2 && wanted->track >= 1 &&
		   wanted->track <= 6 && tracked & BIT_ULL(wanted->track - 1) && unit_bit < 32 &&
		   units & BIT_ULL(unit_bit) && wanted->down_sampling < 16 &&
		   sampling & BIT_ULL(wanted->down_sampling) && wanted->randomize <= 1 &&
		   (!wanted->randomize || chmu->capabilities[1] & CHMU_CAP1_RANDOM) &&
		   wanted->threshold < BIT_ULL(chmu->counter_bits) &&
		   nkv_chmu_has_mode(chmu, wanted) && wanted->first_block < chmu->blocks &&
		   wanted->blocks <= chmu->blocks - wanted->first_block;
	return possible ? 0 : -EINVAL;
}

static int nkv_chmu_settle(struct nkv_card *card, const struct nkv_chmu *chmu, u64 *status)
{
	unsigned long deadline = jiffies + NKV_CHMU_TIMEOUT;
	int ret;

	for (;;) {
		ret = nkv_read(card, chmu->at + CHMU_STATUS, status);
		if (ret || !FIELD_GET(CHMU_STATUS_OPERATION, *status))
			return ret;
		if (READ_ONCE(card->leaving) || time_after(jiffies, deadline))
			return -EIO;
		if (signal_pending(current))
			return -EINTR;
		usleep_range(10, 50);
	}
}

static int nkv_chmu_watch(struct nkv_card *card, const struct nkv_chmu *chmu, u32 first, u32 blocks)
{
	u32 end = blocks ? first + blocks : chmu->blocks;
	u32 word, i;
	int ret = 0;

	for (word = 0; !ret && word < chmu->blocks / BITS_PER_TYPE(u64); word++) {
		u64 bits = 0;

		for (i = 0; i < BITS_PER_TYPE(u64); i++) {
			u32 block = i + word * BITS_PER_TYPE(u64);

			if (block >= first && block < end)
				bits |= BIT_ULL(i);
		}
		ret = nkv_write(card, chmu->ranges_at + word * sizeof(u64), bits);
	}
	return ret;
}

/* From a stop on to an enable; `status` is what the unit made of it. */
static int nkv_chmu_configure(struct nkv_card *card, const struct nkv_chmu *chmu,
			      const struct nkv_card_hotness *wanted, u64 conf0, u64 conf1,
			      u64 *status)
{
	struct nkv_hot_list list;
	int ret;

	ret = nkv_chmu_stop(card, chmu);
	if (!ret)
		ret = nkv_chmu_look(card, chmu, &list);
	if (!ret)
		ret = nkv_chmu_free(card, chmu, &list, list.used);
	if (!ret)
		ret = nkv_chmu_watch(card, chmu, wanted->first_block, wanted->blocks);
	if (!ret)
		ret = nkv_write(card, chmu->at + CHMU_CONF1, conf1);
	if (!ret)
		ret = nkv_write(card, chmu->at + CHMU_CONF0, conf0);
	if (!ret)
		ret = nkv_chmu_settle(card, chmu, status);
	return ret;
}

/* 1 if the registers are as they were written, 0 if somebody else has written them since. */
static int nkv_chmu_holds(struct nkv_card *card, const struct nkv_chmu *chmu, u64 conf0, u64 conf1)
{
	u64 found0, found1;
	int ret;

	ret = nkv_read(card, chmu->at + CHMU_CONF0, &found0);
	if (!ret)
		ret = nkv_read(card, chmu->at + CHMU_CONF1, &found1);
	/* A unit that refuses them takes enable back. */
	return ret ? ret : found1 == conf1 && !((found0 ^ conf0) & ~CHMU_CONF0_ENABLE);
}

/**
 * nkv_chmu_start - Counts from zero, with an empty hot list
 * @card: The card.
 * @chmu: Its unit.
 * @wanted: As nkv_chmu_check() accepts it.
 *
 * When it returns, accesses are counted. The card's firmware counts with a unit while no host does;
 * what it was just writing may come in between once. -EINVAL: the unit refuses it; -EBUSY: somebody
 * else goes on writing its registers; -EINTR: it takes long, and the process has a signal.
 */
int nkv_chmu_start(struct nkv_card *card, const struct nkv_chmu *chmu,
		   const struct nkv_card_hotness *wanted)
{
	const u64 conf0 = FIELD_PREP(CHMU_CONF0_TRACK, wanted->track) |
			  FIELD_PREP(CHMU_CONF0_RANDOM, wanted->randomize) | CHMU_CONF0_ENABLE |
			  FIELD_PREP(CHMU_CONF0_THRESHOLD, wanted->threshold);
	const u64 conf1 = FIELD_PREP(CHMU_CONF1_UNIT_LOG2, wanted->unit_log2) |
			  FIELD_PREP(CHMU_CONF1_DOWN_SAMPLING, wanted->down_sampling) |
			  FIELD_PREP(CHMU_CONF1_MODE, wanted->mode) |
			  FIELD_PREP(CHMU_CONF1_EPOCH_SCALE, wanted->epoch_scale) |
			  FIELD_PREP(CHMU_CONF1_EPOCH_VALUE, wanted->epoch_value);
	unsigned int tries;
	u64 status;
	int ret;

	for (tries = 0; tries < NKV_CHMU_TRIES; tries++) {
		ret = nkv_chmu_configure(card, chmu, wanted, conf0, conf1, &status);
		if (!ret)
			ret = nkv_chmu_holds(card, chmu, conf0, conf1);
		if (ret < 0)
			return ret;
		if (ret)
			return status & CHMU_STATUS_ENABLED ? 0 : -EINVAL;
	}
	return -EBUSY;
}

/**
 * nkv_chmu_stop - Counts no more
 * @card: The card.
 * @chmu: Its unit. What is in its hot list stays there.
 */
int nkv_chmu_stop(struct nkv_card *card, const struct nkv_chmu *chmu)
{
	u64 status;
	int ret;

	ret = nkv_write(card, chmu->at + CHMU_CONF0, 0);
	return ret ? ret : nkv_chmu_settle(card, chmu, &status);
}

/**
 * nkv_chmu_look - Looks how many entries there are
 * @card: The card.
 * @chmu: Its unit.
 * @list: Set unless it fails.
 */
int nkv_chmu_look(struct nkv_card *card, const struct nkv_chmu *chmu, struct nkv_hot_list *list)
{
	u64 status, place;
	int ret;

	ret = nkv_read(card, chmu->at + CHMU_STATUS, &status);
	if (!ret && status & CHMU_STATUS_OVERFLOW)
		ret = nkv_write(card, chmu->at + CHMU_STATUS, CHMU_STATUS_OVERFLOW);
	if (!ret)
		ret = nkv_read(card, chmu->at + CHMU_HEAD_TAIL, &place);
	if (ret)
		return ret;
	/* Whatever a card says, this stays within its list. */
	list->head = FIELD_GET(CHMU_HEAD, place) % chmu->entries;
	list->used = (FIELD_GET(CHMU_TAIL, place) % chmu->entries + chmu->entries - list->head) %
		     chmu->entries;
	list->lost = status & CHMU_STATUS_OVERFLOW;
	list->enabled = status & CHMU_STATUS_ENABLED;
	return 0;
}

/**
 * nkv_chmu_read - Reads the first entries of a hot list
 * @card: The card.
 * @chmu: Its unit.
 * @list: As nkv_chmu_look() had it.
 * @entries: Room for @count.
 * @count: As many as there are at most.
 */
int nkv_chmu_read(struct nkv_card *card, const struct nkv_chmu *chmu,
		  const struct nkv_hot_list *list, u64 *entries, unsigned int count)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < count && !ret; i++)
		ret = nkv_read(card, chmu->list_at + (list->head + i) % chmu->entries * sizeof(u64),
			       &entries[i]);
	return ret;
}

/**
 * nkv_chmu_free - Gives the first entries' places back to the unit
 * @card: The card.
 * @chmu: Its unit.
 * @list: As nkv_chmu_look() had it.
 * @count: As many as there are at most.
 */
int nkv_chmu_free(struct nkv_card *card, const struct nkv_chmu *chmu,
		  const struct nkv_hot_list *list, unsigned int count)
{
	return nkv_write(card, chmu->at + CHMU_HEAD_TAIL,
			 FIELD_PREP(CHMU_HEAD, (list->head + count) % chmu->entries));
}

/**
 * nkv_chmu_unit_bytes - The sizes of units that a monitor has
 * @chmu: The unit.
 *
 * Each bit is one of them, in bytes.
 */
u64 nkv_chmu_unit_bytes(const struct nkv_chmu *chmu)
{
	return FIELD_GET(CHMU_CAP1_UNITS, chmu->capabilities[1]) << CHMU_SMALLEST_UNIT_LOG2;
}
