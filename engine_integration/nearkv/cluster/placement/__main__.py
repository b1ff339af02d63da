"""Places a plan's workers by Ray, and keeps them until it is told to end."""

import argparse
import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nearkv.cluster import ClusterError
from nearkv.cluster.placement.plan import read_plan
from nearkv.console import printable, start_logging

if TYPE_CHECKING:
    from nearkv.cluster.placement.actors import PlacedWorker

_DESCRIPTION = """\
Starts a plan's servers on the nodes of a Ray cluster, lists each in etcd once
it answers, and starts it again when it fails, elsewhere when its node does.
Tells of each change in a line until SIGINT or SIGTERM; then all servers end."""

_EPILOG = """\
examples:
  python -m nearkv.cluster.placement chat.toml
  python -m nearkv.cluster.placement chat.toml --local-nodes 2 --json

The plan: nearkv/cluster/placement/README.md. Routers find the servers by
[discovery] in their configuration.

exit status: 0 done; 1 Ray has no room or does not answer; 2 wrong usage;
130 interrupted before it had placed them."""

_LOOK_S = 1.0


def main(words: list[str] | None = None) -> int:
    """The exit status."""
    options = _parse(words)
    start_logging()
    stopped = threading.Event()
    try:
        plan = read_plan(options.plan)
        # It would end this process by itself on SIGTERM.
        os.environ["RAY_DISABLE_FAILURE_SIGNAL_HANDLER"] = "1"
        from nearkv.cluster.placement.actors import Placement

        with ExitStack() as stack:
            out = stack.enter_context(_own_output())
            stack.enter_context(_connected(options))
            _on_end(stopped)
            placement = stack.enter_context(Placement(plan, place_s=options.place_s))
            told: dict[str, str] = {}
            while not stopped.wait(_LOOK_S):
                for placed in placement.placed():
                    _tell(placed, told, out, as_json=options.json)
    except KeyboardInterrupt:
        return 130
    except (ClusterError, ConnectionError, ImportError, OSError) as error:
        print(f"nearkv.cluster.placement: {error}", file=sys.stderr)
        return 1
    return 0


def _parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m nearkv.cluster.placement",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("plan", type=Path, help="TOML")
    add("--address", default="auto", help="of the Ray cluster (default: this machine's)")
    add("--place-s", type=float, default=60.0, help="how long nodes are waited for (default: 60)")
    add("--json", action="store_true", help="lines of JSON")
    add("--local-nodes", type=int, metavar="N", help="a cluster of its own, all on this machine,")
    add("--local-cpus", type=int, default=4, metavar="N", help="each with N CPUs (default: 4)")
    add("--local-pools", type=int, default=4, metavar="N", help="and N of nearkv_pool (4)")
    options = parser.parse_args(words)
    if options.local_nodes is not None and options.local_nodes < 1:
        parser.error("--local-nodes is 1 or more")
    return options


@contextmanager
def _own_output() -> Iterator[TextIO]:
    """Standard output for our lines alone: what Ray prints goes to standard error."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        yield out


@contextmanager
def _connected(options: argparse.Namespace) -> Iterator[None]:
    if options.local_nodes is not None:
        from nearkv.cluster.placement.local import local_nodes

        pools = {"nearkv_pool": options.local_pools}
        with local_nodes(options.local_nodes, options.local_cpus, pools):
            yield
        return
    import ray

    ray.init(address=options.address, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def _on_end(stopped: threading.Event) -> None:
    """Ends in order on signals. Ray takes both for itself when it connects: so after that."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())


def _tell(placed: "PlacedWorker", told: dict[str, str], out: TextIO, *, as_json: bool) -> None:
    state = placed.state
    if as_json:
        line = json.dumps(dataclasses.asdict(placed))
    elif state.is_serving:
        line = f"{placed.name} serves at {state.url} on node {placed.node[:8]}"
    else:
        why = printable(state.failure) or "it is being started"
        line = f"{placed.name} does not serve: {why}"
    if told.get(placed.name) != line:
        told[placed.name] = line
        print(line, file=out, flush=True)


if __name__ == "__main__":
    sys.exit(main())
