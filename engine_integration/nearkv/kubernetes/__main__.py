"""Runs the device plug-in: python -m nearkv.kubernetes."""

import argparse
import asyncio
import contextlib
import logging
import re
import signal
import sys
import time
from pathlib import Path

from nearkv.console import start_logging
from nearkv.kubernetes.kubelet import PluginRegistration, units_in_use
from nearkv.kubernetes.plugin import DevicePlugin
from nearkv.kubernetes.pools import CardPools, Command, DaemonPool, PoolError, Pools

_LOG = logging.getLogger("nearkv.kubernetes")
_UNITS = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def size(text: str) -> int:
    """Bytes of a size such as 1GiB. ValueError."""
    found = re.fullmatch(r"([1-9]\d*)([KMGT]IB)?", text.strip().upper())
    if found is None:
        raise ValueError(f"{text!r} is no size; 1GiB is one")
    return int(found[1]) * _UNITS[found[2] or ""]


async def serve(pools: Pools, options: argparse.Namespace, ended: asyncio.Event) -> None:
    """Serves kubelet until it has ended. `options` are main's."""
    plugin = DevicePlugin(pools, poll_s=options.poll_s)
    registration = PluginRegistration(options.plugins, options.resource, plugin.handlers)
    try:
        while not ended.is_set():
            await registration.renew()
            asked_at_s = time.monotonic()
            in_use = await units_in_use(options.pod_resources, options.resource)
            if in_use is not None:
                try:
                    await pools.keep(in_use, asked_at_s)
                except PoolError as error:
                    _LOG.warning("what pods have left was not taken back: %s", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), options.poll_s)
    finally:
        await registration.close()


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m nearkv.kubernetes",
        description="A device plug-in: pools of this node as a resource that pods can ask for.",
    )
    made.add_argument("--resource", default="nearkv.io/pool-gib", help="its name in pods' limits")
    made.add_argument("--unit", type=size, default="1GiB", help="what one of it is (%(default)s)")
    made.add_argument("--socket", help="units of the pool of the daemon there, not of the cards")
    made.add_argument("--command", default="nearkv", help="the tool that knows cards and daemons")
    made.add_argument(
        "--plugins",
        type=Path,
        default=Path("/var/lib/kubelet/device-plugins"),
        help="kubelet's folder of plug-ins (%(default)s)",
    )
    made.add_argument(
        "--pod-resources",
        type=Path,
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        help="where kubelet says what pods have (%(default)s)",
    )
    made.add_argument("--poll-s", type=float, default=5.0, help="look again every so often")
    made.add_argument(
        "--grace-s", type=float, default=60.0, help="keep a unit so long before a pod has it"
    )
    return made


async def _run(options: argparse.Namespace) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    command = Command(*options.command.split())
    pools: Pools = CardPools(command, options.unit, grace_s=options.grace_s)
    if options.socket:
        pools = DaemonPool(command, options.socket, options.unit)
    await serve(pools, options, ended)


def main(words: list[str] | None = None) -> int:
    """The exit status."""
    options = parser().parse_args(words)
    start_logging()
    if not options.plugins.is_dir():
        print(f"{options.plugins} is no folder: is this a node of Kubernetes?", file=sys.stderr)
        return 1
    asyncio.run(_run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
