// SPDX-License-Identifier: GPL-2.0
/* /dev/nearkvN: a file has a window of device memory and queues that work in it. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "card.h"

static int nkv_open(struct inode *inode, struct file *filp)
{
	struct nkv_card *card = container_of(filp->private_data, struct nkv_card, misc);
	struct nkv_file *file;

	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return -ENOMEM;
	file->card = card;
	memset(file->queue, -1, sizeof(file->queue));
	atomic64_set(&file->completions, 0);
	init_waitqueue_head(&file->wait);
	spin_lock_init(&file->event_lock);
	down_read(&card->alive);
	if (card->gone) {
		up_read(&card->alive);
		kfree(file);
		return -ENODEV;
	}
	kref_get(&card->ref);
	mutex_lock(&card->lock);
	list_add(&file->list, &card->files);
	mutex_unlock(&card->lock);
	up_read(&card->alive);
	/* So that removal can unmap all files, whichever node they were opened by. */
	filp->f_mapping = card->mappings->f_mapping;
	filp->private_data = file;
	return 0;
}

static int nkv_release(struct inode *inode, struct file *filp)
{
	struct nkv_file *file = filp->private_data;
	struct nkv_card *card = file->card;
	u32 n;

	down_read(&card->alive);
	for (n = 0; n < NKV_CARD_OPEN_QUEUES; n++)
		if (file->queue[n] >= 0)
			nkv_queue_stop(file, n);
	mutex_lock(&card->lock);
	if (file->window)
		nkv_window_give_back(card, file->window, file->stuck);
	list_del(&file->list);
	mutex_unlock(&card->lock);
	up_read(&card->alive);
	if (file->event)
		eventfd_ctx_put(file->event);
	kfree(file);
	kref_put(&card->ref, nkv_card_release);
	return 0;
}

static int nkv_info(struct nkv_file *file, struct nkv_card_info *info)
{
	struct nkv_card *card = file->card;
	u64 abi;
	int ret;

	mutex_lock(&card->lock);
	info->serial = card->serial;
	info->memory_bytes = card->space ? gen_pool_size(card->space) : 0;
	info->free_bytes = nkv_memory_free_bytes(card);
	info->free_queues = nkv_queues_free(card);
	mutex_unlock(&card->lock);
	ret = nkv_read(card, NKV_REG_FEATURES, &info->features);
	if (!ret)
		ret = nkv_read(card, NKV_REG_LIMITS, &info->limits);
	if (!ret)
		ret = nkv_read(card, NKV_REG_CODECS, &info->codecs);
	if (!ret)
		ret = nkv_read(card, NKV_REG_TICK_HZ, &info->tick_hz);
	if (!ret)
		ret = nkv_read(card, NKV_REG_ABI, &abi);
	if (ret)
		return ret;
	info->limits = (info->limits & ~NKV_REG_LIMITS_QUEUES_MASK) |
		       (u64)NKV_CARD_OPEN_QUEUES << NKV_REG_LIMITS_QUEUES_SHIFT;
	info->abi_major = (abi & NKV_REG_ABI_MAJOR_MASK) >> NKV_REG_ABI_MAJOR_SHIFT;
	info->abi_minor = (abi & NKV_REG_ABI_MINOR_MASK) >> NKV_REG_ABI_MINOR_SHIFT;
	return 0;
}

static int nkv_window(struct nkv_file *file, struct nkv_card_window *window)
{
	struct nkv_card *card = file->card;
	struct nkv_window *taken = NULL;
	int ret;

	mutex_lock(&card->lock);
	ret = file->window ? -EEXIST : nkv_window_take(card, window, &taken);
	mutex_unlock(&card->lock);
	if (ret)
		return ret;
	/* Wiping takes time, and nobody else has the window meanwhile. */
	ret = nkv_window_wipe(card, taken);
	mutex_lock(&card->lock);
	if (!ret && file->window)
		ret = -EEXIST; /* Another thread was faster. */
	if (ret) {
		if (!taken->clean)
			taken->keep = false;
		nkv_window_give_back(card, taken, false);
	} else {
		file->window = taken;
		window->bytes = taken->bytes;
	}
	mutex_unlock(&card->lock);
	return ret;
}

static int nkv_window_forget(struct nkv_file *file)
{
	int ret = -ENXIO;

	mutex_lock(&file->card->lock);
	if (file->window) {
		file->window->keep = false;
		ret = 0;
	}
	mutex_unlock(&file->card->lock);
	return ret;
}

static bool nkv_has_news(struct nkv_file *file, u64 epoch)
{
	return READ_ONCE(file->card->gone) || READ_ONCE(file->cancelled) ||
	       (u64)atomic64_read(&file->completions) != epoch;
}

/* Sleeps; card->alive is not held. */
static int nkv_wait(struct nkv_file *file, struct nkv_card_wait *wait)
{
	ktime_t timeout = ns_to_ktime(min_t(u64, wait->timeout_ns, KTIME_MAX));
	int ret = 0;

	if (!nkv_has_news(file, wait->epoch))
		ret = wait_event_interruptible_hrtimeout(file->wait,
							 nkv_has_news(file, wait->epoch), timeout);
	/* The time that is left is not the caller's again. */
	if (ret == -ERESTARTSYS)
		return -EINTR;
	if (READ_ONCE(file->card->gone))
		return -ENODEV;
	if (READ_ONCE(file->cancelled))
		return -ECANCELED;
	if (ret)
		return -ETIMEDOUT;
	wait->epoch = atomic64_read(&file->completions);
	WRITE_ONCE(file->seen, wait->epoch);
	return 0;
}

static int nkv_set_event(struct nkv_file *file, const struct nkv_card_eventfd *wanted)
{
	struct eventfd_ctx *event = NULL;

	if (wanted->reserved)
		return -EINVAL;
	if (wanted->fd >= 0) {
		event = eventfd_ctx_fdget(wanted->fd);
		if (IS_ERR(event))
			return PTR_ERR(event);
	}
	spin_lock_irq(&file->event_lock);
	swap(file->event, event);
	spin_unlock_irq(&file->event_lock);
	if (event)
		eventfd_ctx_put(event);
	return 0;
}

/* Limits that are set hold when the call returns. */
static int nkv_mailbox(struct nkv_card *card, struct nkv_card_mailbox *command)
{
	int ret = nkv_mailbox_call(card, command);

	if (ret || command->opcode != NKV_CCI_OPCODE_SET_FEATURE ||
	    command->status != NKV_CCI_STATUS_SUCCESS)
		return ret;
	ret = nkv_card_enter(card);
	if (!ret) {
		ret = nkv_tenants_refresh(card);
		nkv_card_leave(card);
	}
	return ret;
}

/* A call on what was copied from the caller, and is copied back to it. */
static int nkv_call(struct nkv_file *file, unsigned int cmd, void *argument)
{
	struct nkv_card_queue_state *state = argument;
	struct nkv_card_queue_index *index = argument;
	int ret;

	switch (cmd) {
	case NKV_IOCTL_WAIT:
		return nkv_wait(file, argument);
	case NKV_IOCTL_EVENTFD:
		return nkv_set_event(file, argument);
	case NKV_IOCTL_MAILBOX:
		return nkv_mailbox(file->card, argument);
	}
	ret = nkv_card_enter(file->card);
	if (ret)
		return ret;
	switch (cmd) {
	case NKV_IOCTL_INFO:
		ret = nkv_info(file, argument);
		break;
	case NKV_IOCTL_WINDOW:
		ret = nkv_window(file, argument);
		break;
	case NKV_IOCTL_WINDOW_FORGET:
		ret = nkv_window_forget(file);
		break;
	case NKV_IOCTL_QUEUE_START:
		ret = nkv_queue_start(file, argument);
		break;
	case NKV_IOCTL_QUEUE_STOP:
		ret = index->reserved ? -EINVAL : nkv_queue_stop(file, index->index);
		break;
	case NKV_IOCTL_QUEUE_STATE:
		ret = state->reserved ? -EINVAL : nkv_queue_state(file, state);
		break;
	default:
		ret = -ENOTTY;
	}
	nkv_card_leave(file->card);
	return ret;
}

static long nkv_ioctl(struct file *filp, unsigned int cmd, unsigned long where)
{
	union {
		struct nkv_card_info info;
		struct nkv_card_window window;
		struct nkv_card_queue queue;
		struct nkv_card_queue_state state;
		struct nkv_card_queue_index index;
		struct nkv_card_wait wait;
		struct nkv_card_eventfd event;
		struct nkv_card_mailbox mailbox;
	} argument = {};
	void __user *user = (void __user *)where;
	long ret;

	if (_IOC_TYPE(cmd) != NKV_CARD_IOCTL_TYPE || _IOC_SIZE(cmd) > sizeof(argument))
		return -ENOTTY;
	if ((_IOC_DIR(cmd) & _IOC_WRITE) && copy_from_user(&argument, user, _IOC_SIZE(cmd)))
		return -EFAULT;
	ret = nkv_call(filp->private_data, cmd, &argument);
	if (!ret && (_IOC_DIR(cmd) & _IOC_READ) && copy_to_user(user, &argument, _IOC_SIZE(cmd)))
		ret = -EFAULT;
	return ret;
}

static __poll_t nkv_poll(struct file *filp, poll_table *table)
{
	struct nkv_file *file = filp->private_data;

	poll_wait(filp, &file->wait, table);
	if (READ_ONCE(file->card->gone))
		return EPOLLERR | EPOLLHUP;
	if (READ_ONCE(file->cancelled))
		return EPOLLERR;
	return nkv_has_news(file, READ_ONCE(file->seen)) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* Where a page of a file lies in device memory; card->lock is held. */
static int nkv_place(struct nkv_file *file, u64 page, u64 *at)
{
	if (file->window && page < file->window->bytes >> PAGE_SHIFT) {
		*at = file->window->at + (page << PAGE_SHIFT);
		return 0;
	}
	if (page < NKV_CARD_MAP_DOORBELLS)
		return -EINVAL;
	page -= NKV_CARD_MAP_DOORBELLS;
	if (page >= NKV_CARD_OPEN_QUEUES || file->queue[page] < 0)
		return -EINVAL;
	*at = nkv_doorbell_at(file->card, file->queue[page]);
	return 0;
}

static vm_fault_t nkv_fault(struct vm_fault *vmf)
{
	struct nkv_file *file = vmf->vma->vm_file->private_data;
	struct nkv_card *card = file->card;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	u64 at;

	down_read(&card->alive);
	mutex_lock(&card->lock);
	if (!card->gone && !nkv_place(file, vmf->pgoff, &at))
		ret = vmf_insert_pfn(vmf->vma, vmf->address, PHYS_PFN(card->memory_at + at));
	mutex_unlock(&card->lock);
	up_read(&card->alive);
	return ret;
}

static const struct vm_operations_struct nkv_vm_operations = {
	.fault = nkv_fault,
};

static int nkv_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct nkv_file *file = filp->private_data;
	struct nkv_card *card = file->card;
	u64 first = vma->vm_pgoff;
	u64 at, last;
	int ret;

	BUILD_BUG_ON(PAGE_SIZE != NKV_DOORBELL_STRIDE_BYTES);
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	if (check_add_overflow(first, (u64)vma_pages(vma) - 1, &last))
		return -EINVAL;
	mutex_lock(&card->lock);
	ret = nkv_place(file, first, &at);
	if (!ret)
		ret = nkv_place(file, last, &at);
	/* Nothing reaches from the window to the doorbells: nkv_fault() judges each page. */
	mutex_unlock(&card->lock);
	if (ret)
		return ret;
	if (!card->transport->coherent)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vm_flags_mod(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	vma->vm_ops = &nkv_vm_operations;
	return 0;
}

const struct file_operations nkv_file_operations = {
	.owner = THIS_MODULE,
	.open = nkv_open,
	.release = nkv_release,
	.unlocked_ioctl = nkv_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = nkv_poll,
	.mmap = nkv_mmap,
};
