"""Measures a command's round trip through the card's driver, in the emulated guest.

The guest's processor is emulated: the figures are an upper bound of what driver and library add,
and say nothing of a card.
"""

import json
from collections.abc import Iterator

from bench import Context
from nearkv.results import Goal, Result

_POLLED = Goal("<=", 20)


def run(context: Context) -> Iterator[Result]:
    """Yields the median times of a NOP with rings in CXL memory and the model behind them."""
    # What the guest is made with is no requirement of other benches.
    from emulator.qemu.platform import Platform
    from emulator.qemu.topology import Topology

    with Platform(context.progress).boot(Topology(engine="model:")) as guest:
        guest.make_card()
        context.progress("measuring in the guest")
        told = json.loads(guest.check("nearkv_card_latency", timeout_s=300))
    for way, goal in (("polled", _POLLED), ("waited", None)):
        times = told[way]
        yield Result(
            name=f"card/nop_{way}",
            value=times["p50_us"],
            unit="us",
            goal=goal,
            device=told["device"],
            extra={"p90_us": times["p90_us"], "p99_us": times["p99_us"]},
        )
