// SPDX-License-Identifier: GPL-2.0
/*
 * Queues: a file's queue is one of the engine's, whose rings and window lie within the file's
 * window. The engine refuses what a command names beyond it; this file refuses rings and windows
 * beyond it.
 */
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/log2.h>

#include "card.h"

#define NKV_STOP_TIMEOUT  (20 * HZ) /* For the longest command, simulated. */
#define NKV_PROBE_TIMEOUT (5 * HZ)
#define NKV_START_TIMEOUT HZ

static const u32 nkv_totals[NKV_TOTALS] = {
	[NKV_CARD_COUNTER_COMMANDS] = NKV_REG_TOTAL_COMMANDS(0),
	[NKV_CARD_COUNTER_STREAM_BURSTS] = NKV_REG_TOTAL_STREAM_BURSTS(0),
	[NKV_CARD_COUNTER_REFINE_BURSTS] = NKV_REG_TOTAL_REFINE_BURSTS(0),
	[NKV_CARD_COUNTER_EXACT_BURSTS] = NKV_REG_TOTAL_EXACT_BURSTS(0),
	[NKV_CARD_COUNTER_VALUE_BURSTS] = NKV_REG_TOTAL_VALUE_BURSTS(0),
	[NKV_CARD_COUNTER_WRITTEN_BURSTS] = NKV_REG_TOTAL_WRITTEN_BURSTS(0),
	[NKV_CARD_COUNTER_BUSY_TICKS] = NKV_REG_TOTAL_BUSY_TICKS(0),
};

static bool nkv_within(u64 at, u64 bytes, u64 end)
{
	return bytes <= end && at <= end - bytes;
}

static bool nkv_queue_acceptable(const struct nkv_card_queue *q, u64 window_bytes)
{
	u64 ring_bytes = (u64)q->ring_entries * NKV_COMMAND_BYTES;

	return q->ring_entries >= NKV_MIN_RING_ENTRIES && q->ring_entries <= NKV_MAX_RING_ENTRIES &&
	       is_power_of_2(q->ring_entries) && q->sq_base % NKV_COMMAND_BYTES == 0 &&
	       q->cq_base % NKV_COMMAND_BYTES == 0 && q->window_base % NKV_PAGE_GRAIN_BYTES == 0 &&
	       q->window_bytes != 0 && nkv_within(q->sq_base, ring_bytes, window_bytes) &&
	       nkv_within(q->cq_base, ring_bytes, window_bytes) &&
	       nkv_within(q->window_base, q->window_bytes, window_bytes) &&
	       q->weight <= NKV_REG_WEIGHT_SHARE_MASK &&
	       !memchr_inv(q->reserved, 0, sizeof(q->reserved));
}

static int nkv_set_doorbell(struct nkv_card *card, unsigned int i, bool enable)
{
	u64 enabled = card->doorbells_enabled & ~BIT_ULL(i);
	int ret;

	if (enable)
		enabled |= BIT_ULL(i);
	ret = nkv_write(card, NKV_REG_DOORBELL_ENABLE, enabled);
	if (!ret)
		card->doorbells_enabled = enabled;
	return ret;
}

/* Waits until the engine has taken a queue up, or refused it: it looks at one of them a cycle. */
static int nkv_queue_await_decision(struct nkv_card *card, unsigned int i)
{
	unsigned long deadline = jiffies + NKV_START_TIMEOUT;
	u64 status;
	int ret;

	for (;;) {
		ret = nkv_read(card, NKV_REG_QUEUE_STATUS(i), &status);
		if (ret || status & NKV_REG_QUEUE_STATUS_RUNNING_MASK)
			return ret;
		if (status & NKV_REG_QUEUE_STATUS_REFUSED_MASK)
			return -EINVAL;
		if (READ_ONCE(card->leaving) || time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(10, 50);
	}
}

/* Programs and enables a queue that stands still; addresses of q count from `at` on. */
static int nkv_queue_program(struct nkv_card *card, unsigned int i, const struct nkv_card_queue *q,
			     u64 at)
{
	const struct {
		u32 offset;
		u64 value;
	} writes[] = {
		{ NKV_REG_SQ_BASE(i), at + q->sq_base },
		{ NKV_REG_CQ_BASE(i), at + q->cq_base },
		{ NKV_REG_RING_ENTRIES(i), q->ring_entries },
		{ NKV_REG_WINDOW_BASE(i), at + q->window_base },
		{ NKV_REG_WINDOW_BYTES(i), q->window_bytes },
		{ NKV_REG_TENANT(i), q->tenant },
		{ NKV_REG_WEIGHT(i), q->weight },
		{ NKV_REG_COALESCE(i),
		  (u64)q->coalesce_completions << NKV_REG_COALESCE_COMPLETIONS_SHIFT |
			  (u64)q->coalesce_ticks << NKV_REG_COALESCE_WAIT_TICKS_SHIFT },
		{ NKV_REG_SQ_TAIL(i), 0 },
		{ NKV_REG_CQ_HEAD(i), 0 },
		{ NKV_REG_QUEUE_CONTROL(i), NKV_REG_QUEUE_CONTROL_ENABLE_MASK },
	};
	size_t n;
	int ret;

	card->queues[i].used = true;
	for (n = 0; n < ARRAY_SIZE(writes); n++) {
		ret = nkv_write(card, writes[n].offset, writes[n].value);
		if (ret)
			return ret;
	}
	return nkv_queue_await_decision(card, i);
}

/* Disables a queue and waits for its command in flight. */
static int nkv_queue_disable(struct nkv_card *card, unsigned int i)
{
	unsigned long deadline = jiffies + NKV_STOP_TIMEOUT;
	u64 status;
	int ret;

	ret = nkv_write(card, NKV_REG_QUEUE_CONTROL(i), 0);
	while (!ret) {
		ret = nkv_read(card, NKV_REG_QUEUE_STATUS(i), &status);
		if (ret || !(status & NKV_REG_QUEUE_STATUS_RUNNING_MASK))
			return ret;
		if (READ_ONCE(card->leaving) || time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(100, 1000);
	}
	return ret;
}

static int nkv_free_queue(struct nkv_card *card)
{
	unsigned int i;

	for (i = 0; i < NKV_MAX_QUEUES; i++)
		if (!card->queues[i].file && !card->queues[i].stuck)
			return i;
	return -EMFILE;
}

static void nkv_queue_set_file(struct nkv_queue *queue, struct nkv_file *file)
{
	spin_lock_irq(&queue->lock);
	queue->file = file;
	spin_unlock_irq(&queue->lock);
}

/* A queue that may still work is nobody's until a reset; card->lock is held. */
static void nkv_queue_strand(struct nkv_card *card, unsigned int i)
{
	card->queues[i].stuck = true;
	dev_warn_ratelimited(&card->pdev->dev,
			     "queue %u does not stop; reset the card to have it back\n", i);
}

/* Files' pages come back as they are touched, if they are theirs then. */
static void nkv_unmap_doorbells(struct nkv_card *card)
{
	unmap_mapping_range(card->mappings->f_mapping, (loff_t)NKV_CARD_MAP_DOORBELLS << PAGE_SHIFT,
			    NKV_CARD_OPEN_QUEUES * PAGE_SIZE, 1);
}

/* The engine's number of a file's queue, or -EINVAL; card->lock is held. */
static int nkv_file_queue(const struct nkv_file *file, u32 index)
{
	if (index >= NKV_CARD_OPEN_QUEUES || file->queue[index] < 0)
		return -EINVAL;
	return file->queue[index];
}

/**
 * nkv_read_totals - What a queue has done since the card was reset
 * @card: card->alive is held.
 * @i: The engine's number of the queue.
 * @totals: Room for NKV_TOTALS.
 */
int nkv_read_totals(struct nkv_card *card, unsigned int i, u64 *totals)
{
	size_t n;
	int ret = 0;

	for (n = 0; n < NKV_TOTALS && !ret; n++)
		ret = nkv_read(card, nkv_totals[n] + i * NKV_REG_TOTAL_COMMANDS_STRIDE, &totals[n]);
	return ret;
}

/**
 * nkv_queue_start - Gives a file one of the engine's queues
 * @file: card->alive is held for reading.
 * @wanted: Its index is one of the file's; its weight becomes what it has.
 */
int nkv_queue_start(struct nkv_file *file, struct nkv_card_queue *wanted)
{
	struct nkv_card *card = file->card;
	unsigned int weight;
	int i, ret;

	if (wanted->index >= NKV_CARD_OPEN_QUEUES)
		return -EINVAL;
	mutex_lock(&card->lock);
	ret = -ENXIO;
	if (!file->window)
		goto unlock;
	ret = -EBUSY;
	if (file->queue[wanted->index] >= 0)
		goto unlock;
	ret = -EINVAL;
	if (!nkv_queue_acceptable(wanted, file->window->bytes))
		goto unlock;
	ret = -EPERM;
	weight = nkv_tenant_weight(card, file->window->owner);
	if (wanted->weight > weight && !capable(CAP_SYS_NICE))
		goto unlock;
	if (!wanted->weight)
		wanted->weight = weight;
	ret = -EDQUOT;
	if (!nkv_tenant_may_have_queue(card, file->window->owner))
		goto unlock;
	i = nkv_free_queue(card);
	ret = i;
	if (i < 0)
		goto unlock;
	memset(card->memory + nkv_doorbell_at(card, i), 0, NKV_DOORBELL_STRIDE_BYTES);
	wmb(); /* Nothing of the queue's last owner rings. */
	ret = nkv_read_totals(card, i, card->queues[i].totals);
	if (!ret)
		ret = nkv_set_doorbell(card, i, true);
	if (ret)
		goto unlock;
	card->queues[i].interrupts = 0;
	nkv_queue_set_file(&card->queues[i], file);
	ret = nkv_queue_program(card, i, wanted, file->window->at);
	if (ret) {
		nkv_queue_set_file(&card->queues[i], NULL);
		if (nkv_set_doorbell(card, i, false) || nkv_queue_disable(card, i)) {
			nkv_queue_strand(card, i);
			file->stuck = true;
		}
		goto unlock;
	}
	file->queue[wanted->index] = i;
	file->cancelled = false;
unlock:
	mutex_unlock(&card->lock);
	return ret;
}

/**
 * nkv_queue_stop - Takes a queue back
 * @file: card->alive is held for reading.
 * @index: The file's.
 *
 * A queue that does not stop is nobody's until the card is reset, and memory that its command may
 * still write goes to nobody else.
 */
int nkv_queue_stop(struct nkv_file *file, u32 index)
{
	struct nkv_card *card = file->card;
	struct nkv_queue *queue;
	int i, ret;

	mutex_lock(&card->lock);
	i = nkv_file_queue(file, index);
	if (i < 0) {
		mutex_unlock(&card->lock);
		return i;
	}
	queue = &card->queues[i];
	queue->stuck = true; /* Nobody's while it stops. */
	nkv_queue_set_file(queue, NULL);
	file->queue[index] = -1;
	ret = nkv_set_doorbell(card, i, false);
	nkv_unmap_doorbells(card); /* The queue's page is another's soon. */
	mutex_unlock(&card->lock);
	if (!ret)
		ret = nkv_queue_disable(card, i);
	mutex_lock(&card->lock);
	if (ret) {
		nkv_queue_strand(card, i);
		file->stuck = true;
	} else {
		queue->stuck = false;
	}
	mutex_unlock(&card->lock);
	return ret;
}

/**
 * nkv_queue_state - Tells what a queue has done
 * @file: card->alive is held for reading.
 * @state: Its index is one of the file's.
 */
int nkv_queue_state(struct nkv_file *file, struct nkv_card_queue_state *state)
{
	struct nkv_card *card = file->card;
	u64 totals[NKV_TOTALS];
	struct nkv_queue *queue;
	size_t n;
	int i, ret;

	mutex_lock(&card->lock);
	i = nkv_file_queue(file, state->index);
	ret = i;
	if (i < 0)
		goto unlock;
	queue = &card->queues[i];
	ret = nkv_read(card, NKV_REG_QUEUE_STATUS(i), &state->status);
	if (!ret)
		ret = nkv_read_totals(card, i, totals);
	if (ret)
		goto unlock;
	for (n = 0; n < NKV_TOTALS; n++)
		totals[n] -= queue->totals[n];
	state->commands = totals[NKV_CARD_COUNTER_COMMANDS];
	state->stream_bursts = totals[NKV_CARD_COUNTER_STREAM_BURSTS];
	state->refine_bursts = totals[NKV_CARD_COUNTER_REFINE_BURSTS];
	state->exact_bursts = totals[NKV_CARD_COUNTER_EXACT_BURSTS];
	state->value_bursts = totals[NKV_CARD_COUNTER_VALUE_BURSTS];
	state->written_bursts = totals[NKV_CARD_COUNTER_WRITTEN_BURSTS];
	state->busy_ticks = totals[NKV_CARD_COUNTER_BUSY_TICKS];
	state->interrupts = READ_ONCE(queue->interrupts);
unlock:
	mutex_unlock(&card->lock);
	return ret;
}

/**
 * nkv_queue_probe - Has the engine run a NOP through rings at a place of device memory
 * @card: card->lock is held, and card->alive; memory is mapped.
 * @at: A multiple of BURST_BYTES with room for two rings behind it.
 *
 * Proves that what the processor and the engine call this place is the same. -ENXIO: it is not.
 */
int nkv_queue_probe(struct nkv_card *card, u64 at)
{
	const u64 ring_bytes = NKV_MIN_RING_ENTRIES * NKV_COMMAND_BYTES;
	const struct nkv_card_queue rings = {
		.ring_entries = NKV_MIN_RING_ENTRIES,
		.cq_base = ring_bytes,
		.window_bytes = 2 * ring_bytes,
	};
	unsigned long deadline = jiffies + NKV_PROBE_TIMEOUT;
	struct nkv_completion *completion = card->memory + at + ring_bytes;
	struct nkv_pages_command *command = card->memory + at;
	int i = nkv_free_queue(card);
	int ret, stopped;

	if (i < 0)
		return i;
	memset(command, 0, 2 * ring_bytes);
	command->opcode = NKV_OPCODE_NOP;
	command->tag = 0x4E56;
	wmb(); /* The phase says that the rest is there. */
	WRITE_ONCE(command->flags, NKV_SLOT_FLAG_PHASE);
	wmb(); /* The engine reads it when it is told to. */
	ret = nkv_queue_program(card, i, &rings, at);
	if (!ret)
		ret = nkv_write(card, NKV_REG_SQ_TAIL(i), 1);
	while (!ret && READ_ONCE(completion->phase) != 1) {
		if (time_after(jiffies, deadline))
			ret = -ENXIO;
		else
			usleep_range(50, 500);
	}
	rmb(); /* The phase says that the rest is there. */
	if (!ret && (completion->tag != command->tag || completion->status != NKV_STATUS_OK))
		ret = -ENXIO;
	stopped = nkv_queue_disable(card, i);
	if (stopped)
		nkv_queue_strand(card, i);
	memset(command, 0, 2 * ring_bytes);
	return ret ? ret : stopped;
}

/**
 * nkv_queues_free - How many queues nobody has
 * @card: card->lock is held.
 */
unsigned int nkv_queues_free(struct nkv_card *card)
{
	unsigned int i, count = 0;

	for (i = 0; i < NKV_MAX_QUEUES; i++)
		count += !card->queues[i].file && !card->queues[i].stuck;
	return count;
}

/**
 * nkv_queues_stuck - Whether some did not stop
 * @card: card->lock is held.
 */
bool nkv_queues_stuck(struct nkv_card *card)
{
	unsigned int i;

	for (i = 0; i < NKV_MAX_QUEUES; i++)
		if (card->queues[i].stuck)
			return true;
	return false;
}

/**
 * nkv_queues_cancel - Takes all queues from their files and wakes who sleeps
 * @card: card->alive is held for writing; the engine runs no queue any more.
 */
void nkv_queues_cancel(struct nkv_card *card)
{
	struct nkv_file *file;
	unsigned int i;

	mutex_lock(&card->lock);
	card->doorbells_enabled = 0;
	for (i = 0; i < NKV_MAX_QUEUES; i++) {
		card->queues[i].stuck = false;
		nkv_queue_set_file(&card->queues[i], NULL);
	}
	list_for_each_entry(file, &card->files, list) {
		memset(file->queue, -1, sizeof(file->queue));
		file->stuck = false;
		WRITE_ONCE(file->cancelled, true);
		wake_up_all(&file->wait);
		spin_lock_irq(&file->event_lock);
		if (file->event)
			eventfd_signal(file->event);
		spin_unlock_irq(&file->event_lock);
	}
	nkv_unmap_doorbells(card);
	mutex_unlock(&card->lock);
}

/* Whether debugfs asked for an interrupt to be lost. */
static bool nkv_interrupt_is_dropped(struct nkv_card *card)
{
	u32 left = READ_ONCE(card->drop_interrupts);

	if (likely(!left))
		return false;
	WRITE_ONCE(card->drop_interrupts, left - 1);
	return true;
}

/**
 * nkv_queue_interrupt - Something of a queue has completed
 * @irq: Its vector.
 * @data: The struct nkv_queue.
 */
irqreturn_t nkv_queue_interrupt(int irq, void *data)
{
	struct nkv_queue *queue = data;
	struct nkv_card *card = queue->card;
	struct nkv_file *file;

	if (card->transport->acknowledge)
		card->transport->acknowledge(card, NKV_VECTOR_QUEUES + (queue - card->queues));
	if (nkv_interrupt_is_dropped(card))
		return IRQ_HANDLED;
	spin_lock(&queue->lock);
	queue->interrupts++;
	file = queue->file;
	if (file) {
		atomic64_inc(&file->completions);
		spin_lock(&file->event_lock);
		if (file->event)
			eventfd_signal(file->event);
		spin_unlock(&file->event_lock);
		wake_up_interruptible_all(&file->wait);
	}
	spin_unlock(&queue->lock);
	return IRQ_HANDLED;
}
