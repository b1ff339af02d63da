"""The C header of the card's driver and its callers, and of what an emulated function shares."""

from __future__ import annotations

from .c_header import ASSERTS, END_OF_ASSERTS, comment, constants_lines, documented, type_lines
from .model import CARD, FIRMWARE, Contract, Ioctl
from .text import BANNER

PROLOGUE = f"""/* {BANNER} */
#ifndef NKV_CARD_H
#define NKV_CARD_H

#include "nkv_abi.h"
#ifdef __linux__
#include <linux/ioctl.h>
#endif
"""
MACROS = {"none": "_IO", "read": "_IOR", "write": "_IOW", "both": "_IOWR"}


def emit(contract: Contract) -> str:
    """The text of nkv_card.h."""
    card = contract.part(CARD, FIRMWARE)
    lines = [
        *constants_lines("Limits", card.limits),
        *type_lines(card),
        "",
        *comment("Calls of the driver."),
        "#ifdef __linux__",
        *(line for ioctl in contract.ioctls for line in _ioctl_lines(ioctl)),
        "#endif",
    ]
    text = "\n".join(lines) + "\n"
    return PROLOGUE + ASSERTS + text + END_OF_ASSERTS + "\n#endif /* NKV_CARD_H */\n"


def _ioctl_lines(ioctl: Ioctl) -> list[str]:
    struct = f", struct nkv_{ioctl.struct.name}" if ioctl.struct else ""
    call = f"{MACROS[ioctl.access]}(NKV_CARD_IOCTL_TYPE, {ioctl.number}{struct})"
    return documented(f"#define NKV_IOCTL_{ioctl.name} {call}", ioctl.doc)
