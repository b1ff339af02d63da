// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness monitors as a perf PMU, "nearkvN_hotness": an event has a monitor for itself, as struct
 * card_hotness of the contract configures it, and entries of the hot list go to the event's AUX
 * area as they are. The event counts them.
 *
 * Registers may sleep, and perf's calls may not. So a monitor counts from when the event comes into
 * being until it goes; whether the event is enabled decides where entries go: to the AUX area, or
 * nowhere. A worker looks for them every CARD_LAG_MS and hands them over on the event's processor,
 * with interrupts off, as perf wants it. What finds no room in the AUX area stays in the monitor's
 * list; an AUX record has PERF_AUX_FLAG_PARTIAL when entries found no room there either: with
 * PERF_AUX_FLAG_TRUNCATED perf would switch the event off. Mapping the area stops an event that is
 * enabled: enable it after that.
 *
 * A hot list tells what everybody's commands read: only who has CAP_PERFMON may have one.
 */
#include <linux/capability.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include "card.h"

/* An AUX area. */
struct nkv_aux {
	void *bytes;
	unsigned long size; /* A power of two. */
};

/* Entries on their way to it. */
struct nkv_delivery {
	struct nkv_monitor *monitor;
	unsigned int count;
	unsigned int taken;
};

static struct nkv_monitor *nkv_monitor_of(const struct perf_event *event)
{
	return event->pmu_private;
}

static void nkv_aux_write(const struct nkv_aux *aux, unsigned long head, const u64 *entries,
			  unsigned long bytes)
{
	unsigned long at = head & (aux->size - 1);
	unsigned long first = min(bytes, aux->size - at);

	memcpy(aux->bytes + at, entries, first);
	memcpy(aux->bytes, (const void *)entries + first, bytes - first);
}

/* On the event's processor, with interrupts off: it neither stops nor goes meanwhile. */
static void nkv_deliver(void *data)
{
	struct nkv_delivery *delivery = data;
	struct nkv_monitor *monitor = delivery->monitor;
	struct perf_event *event = monitor->event;
	struct perf_output_handle handle;
	struct nkv_aux *aux;

	if (event->oncpu != smp_processor_id() || event->hw.state & PERF_HES_STOPPED) {
		delivery->taken = delivery->count;
		return;
	}
	aux = perf_aux_output_begin(&handle, event);
	if (!aux)
		return;
	delivery->taken = min_t(unsigned long, delivery->count, handle.size / sizeof(u64));
	nkv_aux_write(aux, handle.head, monitor->entries, delivery->taken * sizeof(u64));
	if (monitor->lost)
		perf_aux_output_flag(&handle, PERF_AUX_FLAG_PARTIAL);
	monitor->lost = false;
	perf_aux_output_end(&handle, delivery->taken * sizeof(u64));
	local64_add(delivery->taken, &event->count);
}

/* Takes entries until there are none, or no room for them; monitor->lock is held. */
static int nkv_monitor_drain(struct nkv_monitor *monitor)
{
	struct nkv_delivery delivery = { .monitor = monitor };
	struct nkv_card *card = monitor->card;
	struct nkv_hot_list list;
	int cpu, ret;

	do {
		ret = nkv_chmu_look(card, &monitor->chmu, &list);
		if (ret)
			return ret;
		monitor->lost |= list.lost || !list.enabled;
		if (!list.enabled) /* A reset of the function has taken its configuration. */
			return nkv_chmu_start(card, &monitor->chmu, &monitor->wanted);
		delivery.count = min(list.used, NKV_ENTRIES_TAKEN);
		if (!delivery.count && !monitor->lost)
			return 0;
		ret = nkv_chmu_read(card, &monitor->chmu, &list, monitor->entries, delivery.count);
		if (ret)
			return ret;
		delivery.taken = 0;
		cpu = READ_ONCE(monitor->event->oncpu);
		if (cpu < 0 || smp_call_function_single(cpu, nkv_deliver, &delivery, true))
			delivery.taken = delivery.count;
		ret = nkv_chmu_free(card, &monitor->chmu, &list, delivery.taken);
	} while (!ret && delivery.taken == NKV_ENTRIES_TAKEN && !READ_ONCE(card->leaving));
	return ret;
}

static void nkv_hotness_work(struct work_struct *work)
{
	struct nkv_monitor *monitor = container_of(work, struct nkv_monitor, work.work);
	struct nkv_card *card = monitor->card;

	down_read(&card->alive);
	if (!card->gone) {
		mutex_lock(&monitor->lock);
		nkv_monitor_drain(monitor);
		mutex_unlock(&monitor->lock);
		queue_delayed_work(system_unbound_wq, &monitor->work, NKV_PMU_LAG);
	}
	up_read(&card->alive);
}

/**
 * nkv_hotness_init - Finds a new card's monitors
 * @card: Nobody else knows it yet; its features are known.
 */
void nkv_hotness_init(struct nkv_card *card)
{
	static const u32 blocks[NKV_MONITORS] = {
		[NKV_CARD_MONITOR_HOST] = NKV_REG_HOST_HOTNESS(0),
		[NKV_CARD_MONITOR_NEAR] = NKV_REG_NEAR_HOTNESS(0),
	};
	unsigned int i;

	for (i = 0; i < NKV_MONITORS; i++) {
		struct nkv_monitor *monitor = &card->monitors[i];

		monitor->card = card;
		mutex_init(&monitor->lock);
		INIT_DELAYED_WORK(&monitor->work, nkv_hotness_work);
		if (card->features & NKV_FEATURE_HOTNESS &&
		    nkv_chmu_find(card, blocks[i], &monitor->chmu))
			dev_warn(&card->pdev->dev, "hotness monitor %u is none that we know\n", i);
	}
}

static void nkv_hotness_destroy(struct perf_event *event)
{
	struct nkv_monitor *monitor = nkv_monitor_of(event);
	struct nkv_card *card = monitor->card;

	cancel_delayed_work_sync(&monitor->work);
	down_read(&card->alive);
	mutex_lock(&monitor->lock);
	if (!card->gone)
		nkv_chmu_stop(card, &monitor->chmu);
	monitor->event = NULL;
	mutex_unlock(&monitor->lock);
	up_read(&card->alive);
	kref_put(&card->ref, nkv_card_release);
}

static int nkv_hotness_open(struct nkv_monitor *monitor, struct perf_event *event,
			    const struct nkv_card_hotness *wanted)
{
	struct nkv_card *card = monitor->card;
	int ret;

	if (card->gone)
		return -ENODEV;
	if (!monitor->chmu.entries)
		return -EOPNOTSUPP;
	ret = nkv_chmu_check(&monitor->chmu, wanted);
	if (ret)
		return ret;
	mutex_lock(&monitor->lock);
	ret = monitor->event ? -EBUSY : nkv_chmu_start(card, &monitor->chmu, wanted);
	if (!ret) {
		monitor->event = event;
		monitor->wanted = *wanted;
		monitor->lost = false;
		event->pmu_private = monitor;
		event->destroy = nkv_hotness_destroy;
		queue_delayed_work(system_unbound_wq, &monitor->work, NKV_PMU_LAG);
	}
	mutex_unlock(&monitor->lock);
	return ret;
}

static int nkv_hotness_event_init(struct perf_event *event)
{
	const u64 config[] = { event->attr.config, event->attr.config1, event->attr.config2 };
	struct nkv_card_hotness wanted;
	struct nkv_card *card;
	int ret;

	static_assert(sizeof(config) == sizeof(wanted));
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	memcpy(&wanted, config, sizeof(wanted));
	if (is_sampling_event(event) || event->cpu < 0 || event->attach_state & PERF_ATTACH_TASK ||
	    event->attr.config3 || wanted.monitor >= NKV_MONITORS)
		return -EINVAL;
	if (!perfmon_capable())
		return -EACCES;
	card = nkv_pmus_card(container_of(event->pmu, struct nkv_pmus, hotness));
	if (!card)
		return -ENODEV;
	down_read(&card->alive);
	ret = nkv_hotness_open(&card->monitors[wanted.monitor], event, &wanted);
	up_read(&card->alive);
	if (ret)
		kref_put(&card->ref, nkv_card_release);
	return ret;
}

static void nkv_hotness_start(struct perf_event *event, int flags)
{
	event->hw.state = 0;
}

static void nkv_hotness_stop(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int nkv_hotness_add(struct perf_event *event, int flags)
{
	event->hw.state = flags & PERF_EF_START ? 0 : PERF_HES_STOPPED | PERF_HES_UPTODATE;
	return 0;
}

static void nkv_hotness_del(struct perf_event *event, int flags)
{
	nkv_hotness_stop(event, flags);
}

/* Deliveries count. */
static void nkv_hotness_read(struct perf_event *event)
{
}

static void *nkv_hotness_setup_aux(struct perf_event *event, void **pages, int count,
				   bool overwrite)
{
	struct page **list;
	struct nkv_aux *aux;
	int i;

	if (overwrite)
		return NULL;
	aux = kzalloc(sizeof(*aux), GFP_KERNEL);
	list = kcalloc(count, sizeof(*list), GFP_KERNEL);
	if (aux && list) {
		for (i = 0; i < count; i++)
			list[i] = virt_to_page(pages[i]);
		aux->size = (unsigned long)count << PAGE_SHIFT;
		aux->bytes = vmap(list, count, VM_MAP, PAGE_KERNEL);
	}
	kfree(list);
	if (aux && !aux->bytes) {
		kfree(aux);
		aux = NULL;
	}
	return aux;
}

static void nkv_hotness_free_aux(void *data)
{
	struct nkv_aux *aux = data;

	vunmap(aux->bytes);
	kfree(aux);
}

const struct pmu nkv_hotness_pmu = {
	.module = THIS_MODULE,
	.task_ctx_nr = perf_invalid_context,
	.scope = PERF_PMU_SCOPE_SYS_WIDE,
	.capabilities = PERF_PMU_CAP_NO_EXCLUDE,
	.attr_groups = nkv_hotness_groups,
	.event_init = nkv_hotness_event_init,
	.add = nkv_hotness_add,
	.del = nkv_hotness_del,
	.start = nkv_hotness_start,
	.stop = nkv_hotness_stop,
	.read = nkv_hotness_read,
	.setup_aux = nkv_hotness_setup_aux,
	.free_aux = nkv_hotness_free_aux,
};
