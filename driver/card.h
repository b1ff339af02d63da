/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One NearKV card: its PCI function, its memory, its queues, and the files that have them.
 *
 * Locks, outermost first:
 *   counters.users_lock	whether perf's counters are sampled, which takes card->alive
 *   card->alive	read: registers and memory may be used; write: they go, or come back
 *   monitor->lock	a hotness monitor's registers, and which perf event has it
 *   mailbox.lock	a command of the firmware's, from its first register to its last
 *   card->lock		windows, which file has which queue, tenants, and what perf knows of
 *				totals
 *   transport's own	one register access at a time, where the function needs that
 *   queue->lock	the file that an interrupt wakes
 * User memory is touched outside all of them: the fault handler takes card->alive below the
 * caller's mmap_lock.
 */
#ifndef NEARKV_CARD_H
#define NEARKV_CARD_H

#include <linux/eventfd.h>
#include <linux/genalloc.h>
#include <linux/io.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "nkv_abi.h"
#include "nkv_card.h"
#include "pmu.h"

#define NKV_CARD_MAX	    64 /* Cards of a machine. */
#define NKV_VECTOR_ERRORS   NKV_REG_INTERRUPT_STATUS_ERRORS_SHIFT
#define NKV_VECTOR_QUEUES   NKV_REG_INTERRUPT_STATUS_QUEUES_SHIFT
#define NKV_DOORBELLS_BYTES (NKV_MAX_QUEUES * NKV_DOORBELL_STRIDE_BYTES)

struct nkv_card;

/*
 * How a function's registers are reached. Calls may sleep, and give 0 or a negative errno; -EIO:
 * the card does not answer.
 */
struct nkv_transport {
	const char *name;
	bool coherent; /* Processors' caches see what the engine writes. */
	int (*read)(struct nkv_card *card, u32 offset, u64 *value);
	int (*write)(struct nkv_card *card, u32 offset, u64 value);
	/* NULL: the processor does it. */
	int (*wipe)(struct nkv_card *card, u64 at, u64 bytes);
	/* In an interrupt; NULL: no need to. */
	void (*acknowledge)(struct nkv_card *card, unsigned int vector);
};

/* A part of device memory. In card->windows until it is given back. */
struct nkv_window {
	struct list_head list;
	u64 at; /* In device memory. */
	u64 bytes;
	char name[NKV_CARD_NAME_BYTES]; /* Empty: goes with its file. */
	kuid_t owner;
	bool in_use;
	bool keep;
	bool clean;  /* Wiped since it was made. */
	bool orphan; /* A stuck queue may still write it: nobody's until a reset. */
};

/* What an interrupt that is no queue's comes with: vector n is card->events[n]. */
struct nkv_event {
	struct nkv_card *card;
};

/* One of the engine's queues. */
struct nkv_queue {
	struct nkv_card *card;
	spinlock_t lock;       /* Guards file against interrupts. */
	struct nkv_file *file; /* Who has it. */
	u64 interrupts;
	u64 totals[NKV_TOTALS]; /* When it was started. */
	bool used;		/* Since nkv_counters_sample(). */
	bool stuck;		/* Did not stop: nobody's until a reset. */
};

/* What one open file has. */
struct nkv_file {
	struct nkv_card *card;
	struct list_head list; /* In card->files, which goes with card->lock. */
	struct nkv_window *window;
	s8 queue[NKV_CARD_OPEN_QUEUES]; /* The engine's number of each, or -1. */
	bool stuck;			/* One of its queues did not stop. */
	bool cancelled;			/* A reset took its queues. */
	atomic64_t completions;		/* Interrupts: what WAIT calls the epoch. */
	u64 seen;			/* The epoch that WAIT gave last. */
	wait_queue_head_t wait;
	spinlock_t event_lock; /* Guards event. */
	struct eventfd_ctx *event;
};

/* The firmware's. */
struct nkv_mailbox {
	struct mutex lock; /* A command at a time. */
	u32 at;		   /* Among the registers; 0: there is none. */
};

struct nkv_card {
	struct kref ref;
	struct pci_dev *pdev;
	struct miscdevice misc;
	char name[20];
	int id;
	struct file *mappings; /* Its address space is that of all files of the card. */

	struct rw_semaphore alive;
	bool gone;
	bool frozen;  /* Its link has failed, and nothing has reset it since. */
	bool leaving; /* Whoever waits for the engine should not. */

	const struct nkv_transport *transport;
	struct mutex transport_lock;		/* One access of the transport at a time. */
	void __iomem *registers;		/* BAR 0, */
	struct nkv_card_bridge __iomem *bridge; /* or an emulated function's, */
	void __iomem *doorbell;			/* and what rings its other side. */
	u64 serial;
	u64 features; /* Register FEATURES. */

	struct mutex lock;	  /* Memory, windows, queues and tenants. */
	struct resource *claimed; /* Of the machine's addresses. */
	phys_addr_t memory_at;
	u64 memory_bytes;
	void *memory;		/* For the driver itself. */
	struct gen_pool *space; /* By device address plus a page: 0 is no address to it. */
	struct list_head windows;
	struct list_head files;
	struct nkv_event events[NKV_VECTOR_QUEUES];
	struct nkv_queue queues[NKV_MAX_QUEUES];
	u64 doorbells_enabled;
	atomic64_t errors; /* Interrupts that said so. */

	struct nkv_mailbox mailbox;
	struct nkv_card_tenant tenants[NKV_CARD_TENANTS]; /* As the firmware had them last. */
	struct nkv_counters counters;
	struct nkv_monitor monitors[NKV_MONITORS];

	struct dentry *debug;
	u32 drop_interrupts; /* So many of the next are not told, */
	u32 fail_registers;  /* so many of the next accesses fail, */
	u32 fail_after;	     /* but so many before them do not. */
};

/* transport.c */
int nkv_transport_open(struct nkv_card *card);
void nkv_transport_close(struct nkv_card *card);

int nkv_read(struct nkv_card *card, u32 offset, u64 *value);
int nkv_write(struct nkv_card *card, u32 offset, u64 value);
int nkv_reset(struct nkv_card *card);

/* memory.c */
int nkv_memory_attach(struct nkv_card *card, phys_addr_t at, u64 bytes);
int nkv_memory_detach(struct nkv_card *card);
void nkv_memory_lose(struct nkv_card *card, bool still);
u64 nkv_memory_free_bytes(struct nkv_card *card);

/* Where a queue's doorbell lies in device memory, which is attached: behind all windows. */
static inline u64 nkv_doorbell_at(const struct nkv_card *card, unsigned int queue)
{
	return card->memory_bytes - NKV_DOORBELLS_BYTES + queue * NKV_DOORBELL_STRIDE_BYTES;
}

int nkv_window_take(struct nkv_card *card, const struct nkv_card_window *wanted,
		    struct nkv_window **window);
int nkv_window_wipe(struct nkv_card *card, struct nkv_window *window);
void nkv_window_give_back(struct nkv_card *card, struct nkv_window *window, bool orphan);
void nkv_windows_adopt(struct nkv_card *card);

/* queue.c */
int nkv_queue_start(struct nkv_file *file, struct nkv_card_queue *wanted);
int nkv_queue_stop(struct nkv_file *file, u32 index);
int nkv_queue_state(struct nkv_file *file, struct nkv_card_queue_state *state);
int nkv_queue_probe(struct nkv_card *card, u64 at);
int nkv_read_totals(struct nkv_card *card, unsigned int i, u64 *totals);
unsigned int nkv_queues_free(struct nkv_card *card);
bool nkv_queues_stuck(struct nkv_card *card);
void nkv_queues_cancel(struct nkv_card *card);
irqreturn_t nkv_queue_interrupt(int irq, void *queue);

/* file.c */
extern const struct file_operations nkv_file_operations;

/* mailbox.c */
void nkv_mailbox_find(struct nkv_card *card);
int nkv_mailbox_execute(struct nkv_card *card, struct nkv_card_mailbox *command, u64 *payload);
int nkv_mailbox_call(struct nkv_card *card, struct nkv_card_mailbox *command);

/* tenants.c */
int nkv_tenants_refresh(struct nkv_card *card);
bool nkv_tenant_may_have_window(struct nkv_card *card, u64 bytes);
bool nkv_tenant_may_have_queue(struct nkv_card *card, kuid_t owner);
unsigned int nkv_tenant_weight(struct nkv_card *card, kuid_t owner);

/* sysfs.c */
extern const struct attribute_group *nkv_groups[];

/* main.c */
void nkv_card_release(struct kref *ref);
void nkv_card_hold(struct nkv_card *card);
int nkv_card_reset(struct nkv_card *card);

/* Until nkv_card_leave(), card->alive is held. -ENODEV: it has gone; -EIO: its link has failed. */
static inline int nkv_card_enter(struct nkv_card *card)
{
	int ret;

	down_read(&card->alive);
	ret = card->gone ? -ENODEV : card->frozen ? -EIO : 0;
	if (ret)
		up_read(&card->alive);
	return ret;
}

static inline void nkv_card_leave(struct nkv_card *card)
{
	up_read(&card->alive);
}

/* recovery.c */
extern const struct pci_error_handlers nkv_error_handlers;

#endif /* NEARKV_CARD_H */
