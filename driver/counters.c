// SPDX-License-Identifier: GPL-2.0
/*
 * The engine's counters as a perf PMU, "nearkvN": sums over all queues.
 *
 * Perf starts, stops and reads events where nothing may sleep, and reading a register may: so the
 * sums are sampled beside it, every CARD_LAG_MS while there are events, and before an event comes
 * into being. What perf reads lies back by that time at most, and by what reading registers takes.
 * Who needs the exact count now opens one event more: that brings all of them up to date.
 *
 * Sums only grow: TOTAL registers stay as a queue goes from file to file, and a reset of the card,
 * which puts them to zero, samples them before.
 */
#include "card.h"

static struct nkv_card *nkv_card_of(const struct perf_event *event)
{
	return event->pmu_private;
}

/* Adds what a queue has done since it was sampled last. */
static int nkv_counters_sample_queue(struct nkv_card *card, unsigned int i)
{
	struct nkv_queue *queue = &card->queues[i];
	u64 *last = card->counters.last[i];
	u64 totals[NKV_TOTALS];
	size_t n;
	int ret;

	if (!queue->used)
		return 0;
	ret = nkv_read_totals(card, i, totals);
	if (ret)
		return ret;
	for (n = 0; n < NKV_TOTALS; n++) {
		/* Less than before: something else has reset the card. */
		atomic64_add(totals[n] - (totals[n] < last[n] ? 0 : last[n]),
			     &card->counters.sum[n]);
		last[n] = totals[n];
	}
	queue->used = queue->file || queue->stuck;
	return 0;
}

/**
 * nkv_counters_sample - Brings the sums up to date
 * @card: card->alive is held.
 */
int nkv_counters_sample(struct nkv_card *card)
{
	unsigned int i;
	int ret = 0;

	mutex_lock(&card->lock);
	for (i = 0; i < NKV_MAX_QUEUES && !ret; i++)
		ret = nkv_counters_sample_queue(card, i);
	mutex_unlock(&card->lock);
	return ret;
}

/**
 * nkv_counters_restart - The card's TOTAL registers are zero again
 * @card: card->alive is held for writing.
 */
void nkv_counters_restart(struct nkv_card *card)
{
	memset(card->counters.last, 0, sizeof(card->counters.last));
}

static void nkv_counters_work(struct work_struct *work)
{
	struct nkv_card *card = container_of(work, struct nkv_card, counters.work.work);

	down_read(&card->alive);
	if (!card->gone) {
		nkv_counters_sample(card);
		queue_delayed_work(system_unbound_wq, &card->counters.work, NKV_PMU_LAG);
	}
	up_read(&card->alive);
}

/**
 * nkv_counters_init - Prepares a new card
 * @card: Nobody else knows it yet.
 */
void nkv_counters_init(struct nkv_card *card)
{
	mutex_init(&card->counters.users_lock);
	INIT_DELAYED_WORK(&card->counters.work, nkv_counters_work);
}

static void nkv_counter_destroy(struct perf_event *event)
{
	struct nkv_card *card = nkv_card_of(event);

	mutex_lock(&card->counters.users_lock);
	if (!--card->counters.users)
		cancel_delayed_work_sync(&card->counters.work);
	mutex_unlock(&card->counters.users_lock);
	kref_put(&card->ref, nkv_card_release);
}

/* Before an event comes into being. */
static int nkv_counter_open(struct nkv_card *card)
{
	int ret = -ENODEV;

	down_read(&card->alive);
	if (!card->gone)
		ret = card->features & NKV_FEATURE_COUNTERS ? nkv_counters_sample(card)
							    : -EOPNOTSUPP;
	up_read(&card->alive);
	if (!ret && !card->counters.users++)
		queue_delayed_work(system_unbound_wq, &card->counters.work, NKV_PMU_LAG);
	return ret;
}

static int nkv_counter_init(struct perf_event *event)
{
	struct nkv_card *card;
	int ret;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (is_sampling_event(event) || event->cpu < 0 || event->attach_state & PERF_ATTACH_TASK ||
	    event->attr.config >= NKV_TOTALS || event->attr.config1 || event->attr.config2 ||
	    event->attr.config3)
		return -EINVAL;
	card = nkv_pmus_card(container_of(event->pmu, struct nkv_pmus, counters));
	if (!card)
		return -ENODEV;
	mutex_lock(&card->counters.users_lock);
	ret = nkv_counter_open(card);
	mutex_unlock(&card->counters.users_lock);
	if (ret) {
		kref_put(&card->ref, nkv_card_release);
		return ret;
	}
	event->pmu_private = card;
	event->destroy = nkv_counter_destroy;
	return 0;
}

static u64 nkv_counter_now(const struct perf_event *event)
{
	return atomic64_read(&nkv_card_of(event)->counters.sum[event->attr.config]);
}

static void nkv_counter_read(struct perf_event *event)
{
	u64 now = nkv_counter_now(event);

	local64_add(now - local64_xchg(&event->hw.prev_count, now), &event->count);
}

static void nkv_counter_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, nkv_counter_now(event));
	event->hw.state = 0;
}

static void nkv_counter_stop(struct perf_event *event, int flags)
{
	if (event->hw.state & PERF_HES_STOPPED)
		return;
	nkv_counter_read(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

/* Of a card that has gone, too: perf takes a refusal for a sign that the PMU is full. */
static int nkv_counter_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		nkv_counter_start(event, flags);
	return 0;
}

static void nkv_counter_del(struct perf_event *event, int flags)
{
	nkv_counter_stop(event, flags);
}

PMU_FORMAT_ATTR(event, "config:0-7");

static struct attribute *nkv_formats[] = { &format_attr_event.attr, NULL };

static const struct attribute_group nkv_format_group = {
	.name = "format",
	.attrs = nkv_formats,
};

static ssize_t nkv_event_show(struct device *dev, struct device_attribute *attr, char *page)
{
	struct perf_pmu_events_attr *event = container_of(attr, struct perf_pmu_events_attr, attr);

	return sysfs_emit(page, "event=%llu\n", event->id);
}

#define NKV_EVENT(name, counter) PMU_EVENT_ATTR_ID(name, nkv_event_show, NKV_CARD_COUNTER_##counter)

#define NKV_SCALE(name) \
	PMU_EVENT_ATTR_STRING(name.scale, nkv_##name##_scale, __stringify(NKV_BURST_BYTES))
#define NKV_UNIT(name) PMU_EVENT_ATTR_STRING(name.unit, nkv_##name##_unit, "B")

NKV_SCALE(stream_bursts);
NKV_UNIT(stream_bursts);
NKV_SCALE(refine_bursts);
NKV_UNIT(refine_bursts);
NKV_SCALE(exact_bursts);
NKV_UNIT(exact_bursts);
NKV_SCALE(value_bursts);
NKV_UNIT(value_bursts);
NKV_SCALE(written_bursts);
NKV_UNIT(written_bursts);

static struct attribute *nkv_events[] = {
	NKV_EVENT(commands, COMMANDS),		 NKV_EVENT(stream_bursts, STREAM_BURSTS),
	&nkv_stream_bursts_scale.attr.attr,	 &nkv_stream_bursts_unit.attr.attr,
	NKV_EVENT(refine_bursts, REFINE_BURSTS), &nkv_refine_bursts_scale.attr.attr,
	&nkv_refine_bursts_unit.attr.attr,	 NKV_EVENT(exact_bursts, EXACT_BURSTS),
	&nkv_exact_bursts_scale.attr.attr,	 &nkv_exact_bursts_unit.attr.attr,
	NKV_EVENT(value_bursts, VALUE_BURSTS),	 &nkv_value_bursts_scale.attr.attr,
	&nkv_value_bursts_unit.attr.attr,	 NKV_EVENT(written_bursts, WRITTEN_BURSTS),
	&nkv_written_bursts_scale.attr.attr,	 &nkv_written_bursts_unit.attr.attr,
	NKV_EVENT(busy_ticks, BUSY_TICKS),	 NULL,
};

static const struct attribute_group nkv_events_group = {
	.name = "events",
	.attrs = nkv_events,
};

static const struct attribute_group *nkv_counter_groups[] = {
	&nkv_format_group,
	&nkv_events_group,
	NULL,
};

const struct pmu nkv_counters_pmu = {
	.module = THIS_MODULE,
	.task_ctx_nr = perf_invalid_context,
	.scope = PERF_PMU_SCOPE_SYS_WIDE,
	.capabilities = PERF_PMU_CAP_NO_EXCLUDE | PERF_PMU_CAP_NO_INTERRUPT,
	.attr_groups = nkv_counter_groups,
	.event_init = nkv_counter_init,
	.add = nkv_counter_add,
	.del = nkv_counter_del,
	.start = nkv_counter_start,
	.stop = nkv_counter_stop,
	.read = nkv_counter_read,
};
