// SPDX-License-Identifier: GPL-2.0
/* What perf's folder of "nearkvN_hotness" says. */
#include <linux/sysfs.h>

#include "card.h"

/* Of struct card_hotness. */
PMU_FORMAT_ATTR(monitor, "config:0-7");
PMU_FORMAT_ATTR(track, "config:8-15");
PMU_FORMAT_ATTR(unit_log2, "config:16-23");
PMU_FORMAT_ATTR(down_sampling, "config:24-31");
PMU_FORMAT_ATTR(mode, "config:32-39");
PMU_FORMAT_ATTR(randomize, "config:40-47");
PMU_FORMAT_ATTR(epoch_scale, "config:48-55");
PMU_FORMAT_ATTR(threshold, "config1:0-31");
PMU_FORMAT_ATTR(epoch_value, "config1:32-47");
PMU_FORMAT_ATTR(first_block, "config2:0-31");
PMU_FORMAT_ATTR(blocks, "config2:32-63");

static struct attribute *nkv_formats[] = {
	&format_attr_monitor.attr,	 &format_attr_track.attr,     &format_attr_unit_log2.attr,
	&format_attr_down_sampling.attr, &format_attr_mode.attr,      &format_attr_randomize.attr,
	&format_attr_epoch_scale.attr,	 &format_attr_threshold.attr, &format_attr_epoch_value.attr,
	&format_attr_first_block.attr,	 &format_attr_blocks.attr,    NULL,
};

static const struct attribute_group nkv_format_group = {
	.name = "format",
	.attrs = nkv_formats,
};

/* Accesses of both kinds to units of 4 KiB, 64 of them within a second. */
#define NKV_HOT "track=6,unit_log2=12,epoch_scale=5,epoch_value=1,threshold=64"
PMU_EVENT_ATTR_STRING(host, nkv_host, "monitor=0," NKV_HOT);
PMU_EVENT_ATTR_STRING(near, nkv_near, "monitor=1," NKV_HOT);

static struct attribute *nkv_events[] = { &nkv_host.attr.attr, &nkv_near.attr.attr, NULL };

static const struct attribute_group nkv_events_group = {
	.name = "events",
	.attrs = nkv_events,
};

/* What the monitors of the present card can do: they are alike. */
static ssize_t nkv_capability_show(struct device *dev, char *buf,
				   u64 (*value)(const struct nkv_chmu *chmu))
{
	struct pmu *pmu = dev_get_drvdata(dev);
	struct nkv_card *card = nkv_pmus_card(container_of(pmu, struct nkv_pmus, hotness));
	ssize_t length;

	if (!card)
		return -ENODEV;
	length = sysfs_emit(buf, "%llu\n", value(&card->monitors[NKV_CARD_MONITOR_NEAR].chmu));
	kref_put(&card->ref, nkv_card_release);
	return length;
}

static u64 nkv_counter_bits(const struct nkv_chmu *chmu)
{
	return chmu->counter_bits;
}

static u64 nkv_entries(const struct nkv_chmu *chmu)
{
	return chmu->entries;
}

static ssize_t counter_bits_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return nkv_capability_show(dev, buf, nkv_counter_bits);
}
static DEVICE_ATTR_RO(counter_bits);

static ssize_t entries_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return nkv_capability_show(dev, buf, nkv_entries);
}
static DEVICE_ATTR_RO(entries);

/* The sum of the sizes of units that there are, each a power of two. */
static ssize_t unit_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return nkv_capability_show(dev, buf, nkv_chmu_unit_bytes);
}
static DEVICE_ATTR_RO(unit_bytes);

static struct attribute *nkv_capabilities[] = {
	&dev_attr_counter_bits.attr,
	&dev_attr_entries.attr,
	&dev_attr_unit_bytes.attr,
	NULL,
};

static const struct attribute_group nkv_capabilities_group = {
	.name = "caps",
	.attrs = nkv_capabilities,
};

const struct attribute_group *nkv_hotness_groups[] = {
	&nkv_format_group,
	&nkv_events_group,
	&nkv_capabilities_group,
	NULL,
};
