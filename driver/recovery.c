// SPDX-License-Identifier: GPL-2.0
/*
 * Errors of the link above a card's function, and resets that others ask for (Documentation/PCI/
 * pci-error-recovery.rst). The card's memory lies behind a link of its own: files keep their
 * windows, and lose their queues where registers were lost.
 */
#include "card.h"

/* Between this and a reset nothing is read or written, and nobody gets a window or a queue. */
static void nkv_card_freeze(struct nkv_card *card)
{
	nkv_card_hold(card);
	card->frozen = true;
	nkv_queues_cancel(card);
	up_write(&card->alive);
}

/* After a reset of its function; card->alive is held for writing, and its queues are cancelled. */
static int nkv_card_begin_anew(struct nkv_card *card)
{
	u64 id;
	int ret;

	card->frozen = false;
	ret = nkv_read(card, NKV_REG_ID, &id);
	if (!ret && id != NKV_ABI_ID)
		ret = -EIO;
	if (!ret)
		ret = nkv_reset(card);
	if (!ret && card->claimed)
		ret = nkv_write(card, NKV_REG_DOORBELL_BASE, nkv_doorbell_at(card, 0));
	if (ret) {
		card->frozen = true;
		dev_err(&card->pdev->dev, "%s: does not come back: %d\n", card->name, ret);
		return ret;
	}
	nkv_counters_restart(card);
	nkv_windows_adopt(card);
	dev_info(&card->pdev->dev, "%s: begins anew\n", card->name);
	return 0;
}

static pci_ers_result_t nkv_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;
	nkv_card_freeze(pci_get_drvdata(pdev));
	return state == pci_channel_io_frozen ? PCI_ERS_RESULT_NEED_RESET
					      : PCI_ERS_RESULT_DISCONNECT;
}

static pci_ers_result_t nkv_slot_reset(struct pci_dev *pdev)
{
	struct nkv_card *card = pci_get_drvdata(pdev);
	int ret;

	pci_restore_state(pdev);
	pci_save_state(pdev); /* For the next time. */
	nkv_card_hold(card);
	ret = nkv_card_begin_anew(card);
	up_write(&card->alive);
	return ret ? PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_RECOVERED;
}

static void nkv_reset_prepare(struct pci_dev *pdev)
{
	struct nkv_card *card = pci_get_drvdata(pdev);

	nkv_card_hold(card);
	nkv_counters_sample(card); /* As far as it answers. */
	nkv_queues_cancel(card);
}

static void nkv_reset_done(struct pci_dev *pdev)
{
	struct nkv_card *card = pci_get_drvdata(pdev);

	nkv_card_begin_anew(card);
	up_write(&card->alive);
}

const struct pci_error_handlers nkv_error_handlers = {
	.error_detected = nkv_error_detected,
	.slot_reset = nkv_slot_reset,
	.reset_prepare = nkv_reset_prepare,
	.reset_done = nkv_reset_done,
};
