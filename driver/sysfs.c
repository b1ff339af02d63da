// SPDX-License-Identifier: GPL-2.0
/* What an administrator sees and sets: nearkv/ in the PCI function's folder. */
#include <linux/sysfs.h>

#include "card.h"

static struct nkv_card *nkv_of(struct device *dev)
{
	return dev_get_drvdata(dev);
}

static ssize_t transport_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", nkv_of(dev)->transport->name);
}
static DEVICE_ATTR_RO(transport);

static ssize_t serial_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%#llx\n", nkv_of(dev)->serial);
}
static DEVICE_ATTR_RO(serial);

static ssize_t errors_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n", atomic64_read(&nkv_of(dev)->errors));
}
static DEVICE_ATTR_RO(errors);

static ssize_t memory_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nkv_card *card = nkv_of(dev);
	ssize_t ret;

	mutex_lock(&card->lock);
	if (card->claimed)
		ret = sysfs_emit(buf, "%pa %#llx\n", &card->memory_at, card->memory_bytes);
	else
		ret = sysfs_emit(buf, "none\n");
	mutex_unlock(&card->lock);
	return ret;
}

/* "ADDRESS BYTES" attaches, "none" detaches. */
static ssize_t memory_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct nkv_card *card = nkv_of(dev);
	long long at, bytes;
	int ret;

	down_read(&card->alive);
	if (card->gone)
		ret = -ENODEV;
	else if (sysfs_streq(buf, "none"))
		ret = nkv_memory_detach(card);
	else if (sscanf(buf, "%lli %lli", &at, &bytes) == 2)
		ret = nkv_memory_attach(card, at, bytes);
	else
		ret = -EINVAL;
	up_read(&card->alive);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(memory);

static ssize_t free_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nkv_card *card = nkv_of(dev);
	u64 bytes;

	mutex_lock(&card->lock);
	bytes = nkv_memory_free_bytes(card);
	mutex_unlock(&card->lock);
	return sysfs_emit(buf, "%llu\n", bytes);
}
static DEVICE_ATTR_RO(free_bytes);

static ssize_t free_queues_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nkv_card *card = nkv_of(dev);
	unsigned int queues;

	mutex_lock(&card->lock);
	queues = nkv_queues_free(card);
	mutex_unlock(&card->lock);
	return sysfs_emit(buf, "%u\n", queues);
}
static DEVICE_ATTR_RO(free_queues);

static const char *nkv_window_state(const struct nkv_window *window)
{
	if (window->orphan)
		return "orphan";
	return window->in_use ? "used" : "kept";
}

/*
 * Kept windows and those in use: bytes, owner, in use or not, name. Of a name, which its owner
 * chose, what does not print is escaped: it cannot look like another line.
 */
static ssize_t windows_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct nkv_card *card = nkv_of(dev);
	struct nkv_window *window;
	ssize_t length = 0;

	mutex_lock(&card->lock);
	list_for_each_entry(window, &card->windows, list) {
		const char *name = window->name[0] ? window->name : "-";

		length += sysfs_emit_at(buf, length, "%llu %u %s %*pE\n", window->bytes,
					from_kuid_munged(current_user_ns(), window->owner),
					nkv_window_state(window),
					(int)strnlen(name, NKV_CARD_NAME_BYTES), name);
	}
	mutex_unlock(&card->lock);
	return length;
}
static DEVICE_ATTR_ADMIN_RO(windows);

static ssize_t reset_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t count)
{
	int ret;

	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	ret = nkv_card_reset(nkv_of(dev));
	return ret ? ret : count;
}

static struct device_attribute dev_attr_card_reset = __ATTR(reset, 0200, NULL, reset_store);

static struct attribute *nkv_attributes[] = {
	&dev_attr_transport.attr, &dev_attr_serial.attr,     &dev_attr_errors.attr,
	&dev_attr_memory.attr,	  &dev_attr_free_bytes.attr, &dev_attr_free_queues.attr,
	&dev_attr_windows.attr,	  &dev_attr_card_reset.attr, NULL,
};

static const struct attribute_group nkv_group = {
	.name = "nearkv",
	.attrs = nkv_attributes,
};

const struct attribute_group *nkv_groups[] = { &nkv_group, NULL };
