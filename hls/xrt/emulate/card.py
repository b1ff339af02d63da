"""The card: which compute units, at which addresses, with which banks of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .failure import EmulationError
from .kernel import Kernel

_PLATFORM = "nearkv_emulation_1"
_FIRST_REGISTERS = 0x1800000
_REGISTER_GRAIN = 1 << 16
_FIRST_HOST = 1 << 44
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_PAGE_BYTES = 4096

Card = dict[str, Any]


@dataclass(frozen=True)
class Wish:
    """What the command line says of the card, in v++'s words."""

    nk: Sequence[str]
    bank: Sequence[str]
    sp: Sequence[str]
    memory_latency_cycles: int


def describe_card(kernels: Sequence[Kernel], wish: Wish) -> Card:
    """The description that the xclbin's writer and the simulator read."""
    if wish.memory_latency_cycles < 1:
        raise EmulationError("--memory-latency: 1 cycle or more")
    banks = _banks(wish.bank or ["DDR[0]=16GiB"])
    counts = _counts(kernels, wish.nk)
    places = _places(wish.sp, kernels, counts, banks)
    base = _FIRST_REGISTERS
    described = []
    for kernel in kernels:
        grain = max(_REGISTER_GRAIN, kernel.register_bytes)
        base = -(-base // grain) * grain
        units = []
        for number in range(1, counts[kernel.name] + 1):
            units.append({"name": f"{kernel.name}_{number}", "base": base})
            base += grain
        described.append(_describe(kernel, units, places, banks[0]["tag"]))
    return {
        "platform": _PLATFORM,
        "memory_latency_cycles": wish.memory_latency_cycles,
        "banks": banks,
        "kernels": described,
    }


def _describe(
    kernel: Kernel, units: list[dict[str, Any]], places: dict[str, str], usual: str
) -> dict[str, Any]:
    arguments = []
    for argument in kernel.arguments:
        entry = asdict(argument)
        if argument.port:
            entry["banks"] = [
                places.get(f"{unit['name']}.{argument.name}", usual) for unit in units
            ]
        arguments.append(entry)
    entry = asdict(kernel)
    entry.update(arguments=arguments, masters=list(kernel.masters), compute_units=units)
    return entry


def _banks(texts: Sequence[str]) -> list[dict[str, Any]]:
    banks: list[dict[str, Any]] = []
    base = 0
    for text in texts:
        match = re.fullmatch(r"([A-Za-z]\w*\[\d+\])=(\d+)(\w+)", text)
        if match is None or match[3] not in _UNITS:
            raise EmulationError(f"--bank: TAG=SIZE, as DDR[0]=4GiB, not '{text}'")
        size = int(match[2]) * _UNITS[match[3]]
        if size == 0 or size % _PAGE_BYTES:
            raise EmulationError(f"--bank {match[1]}: whole pages of 4 KiB")
        if any(bank["tag"] == match[1] for bank in banks):
            raise EmulationError(f"--bank: there are two of {match[1]}")
        is_host = match[1].startswith("HOST")
        banks.append({"tag": match[1], "base": _FIRST_HOST if is_host else base, "bytes": size})
        if not is_host:
            base += size
    return banks


def _counts(kernels: Sequence[Kernel], texts: Sequence[str]) -> dict[str, int]:
    counts = {kernel.name: 1 for kernel in kernels}
    for text in texts:
        match = re.fullmatch(r"(\w+):(\d+)", text)
        if match is None or int(match[2]) == 0:
            raise EmulationError(f"--nk: KERNEL:N, as vadd:2, not '{text}'")
        if match[1] not in counts:
            raise EmulationError(f"--nk: there is no kernel {match[1]}, but {', '.join(counts)}")
        counts[match[1]] = int(match[2])
    return counts


def _places(
    texts: Sequence[str],
    kernels: Sequence[Kernel],
    counts: dict[str, int],
    banks: Sequence[dict[str, Any]],
) -> dict[str, str]:
    known = {
        f"{kernel.name}_{number}.{argument.name}"
        for kernel in kernels
        for number in range(1, counts[kernel.name] + 1)
        for argument in kernel.arguments
        if argument.port
    }
    tags = [bank["tag"] for bank in banks]
    places = {}
    for text in texts:
        place, _, tag = text.partition(":")
        if place not in known:
            raise EmulationError(
                f"--sp: there is no buffer {place}, but {', '.join(sorted(known))}"
            )
        if tag not in tags:
            raise EmulationError(f"--sp {place}: there is no bank '{tag}', but {', '.join(tags)}")
        places[place] = tag
    return places
