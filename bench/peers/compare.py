"""set and get of the same objects by ours and by each peer, in turns."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import Context, Skipped
from bench.contender import Contender, ContenderError
from bench.peers import PEERS, Peer
from nearkv.results import Goal, Result, Samples

_BATCH = 16
_SHARED = Path("/dev/shm")


@dataclass(frozen=True)
class Sizes:
    """What every contender holds, and how often it is its turn."""

    object_bytes: int
    objects: int
    rounds: int

    @property
    def name(self) -> str:
        """`256KiB`."""
        kib = self.object_bytes >> 10
        return f"{kib >> 10}MiB" if kib % 1024 == 0 else f"{kib}KiB"


def compare_with_peers(context: Context, program: Path) -> Iterator[Result]:
    """Rates of ours beside those of each peer that is here and does not fail.

    `program` is nearkv_tier_bench. With `context.install_peers`, those that can be are installed.
    Raises Skipped at the end for the others, each with a reason.
    """
    lacking: list[str] = []
    peers: list[Peer] = []
    for peer in PEERS:
        try:
            peer.require(context)
            peers.append(peer)
        except Skipped as skipped:
            lacking += skipped.args
    for sizes in _sizes(context) if peers else ():
        yield from _compare(context, program, peers, sizes, lacking)
    if lacking:
        raise Skipped(*lacking)


def _sizes(context: Context) -> list[Sizes]:
    if context.tiny:
        return [Sizes(256 << 10, 16, 1)]
    kibs = (256, 512, 1024, 2048) if context.long else (256, 1024)
    total = 256 << 20
    return [Sizes(kib << 10, total // (kib << 10), 31 if context.long else 7) for kib in kibs]


def _compare(
    context: Context, program: Path, peers: list[Peer], sizes: Sizes, lacking: list[str]
) -> Iterator[Result]:
    """Adds to `lacking` what peers did not measure at these sizes, and why."""
    with ExitStack() as stack:
        folders = {
            "memory": Path(stack.enter_context(tempfile.TemporaryDirectory())),
            "disk": Path(stack.enter_context(tempfile.TemporaryDirectory())),
        }
        if _SHARED.is_dir():
            shared = stack.enter_context(tempfile.TemporaryDirectory(dir=_SHARED))
            folders["shared"] = Path(shared)
        contenders: dict[str, Contender] = {}
        started: list[Peer] = []
        for peer in peers:
            if peer.place not in folders:
                lacking.append(f"{sizes.name}: {peer.title}: no {_SHARED} here")
                continue
            context.progress(f"{sizes.objects} x {sizes.name}: starting {peer.title}")
            try:
                one = peer.start(sizes.objects, sizes.object_bytes, _BATCH, folders[peer.place])
                contenders[peer.name] = stack.enter_context(one)
                started.append(peer)
            except ContenderError as error:
                lacking.append(f"{sizes.name}: {error}")
        for place in {peer.place for peer in started}:
            own = _own(program, sizes, place, folders[place])
            contenders[f"nearkv_{place}"] = stack.enter_context(own)
        rates = _take_turns(context, contenders, sizes, lacking)
    for work in ("set", "get"):
        for peer in started:
            own = rates.get((f"nearkv_{peer.place}", work))
            theirs = rates.get((peer.name, work))
            if own and theirs:
                yield _result(work, sizes, peer, own, theirs)


def _own(program: Path, sizes: Sizes, place: str, folder: Path) -> Contender:
    path = () if place == "memory" else ("--path", str(folder / "nearkv.pool"))
    command = [str(program), "turns", "--objects", str(sizes.objects)]
    command += ["--object-bytes", str(sizes.object_bytes), "--batch", str(_BATCH), *path]
    return Contender(f"NearKV in {place}", command)


def _take_turns(
    context: Context, contenders: dict[str, Contender], sizes: Sizes, lacking: list[str]
) -> dict[tuple[str, str], Samples]:
    """GB/s by contender and order. One that fails is added to `lacking` and has no figures."""
    rates: dict[tuple[str, str], list[float]] = {}
    left = dict(contenders)
    turns = random.Random(1)
    for round_number in range(sizes.rounds + 1):
        context.progress(f"{sizes.objects} x {sizes.name}: round {round_number}")
        names = list(left)
        turns.shuffle(names)  # so that nobody always follows the one who fills the caches
        for name in names:
            try:
                left[name].order("clear")
                for work in ("set", "get"):
                    reply = left[name].order(work)
                    if round_number > 0:  # the first warms up
                        rate = reply["bytes"] / 1e9 / reply["seconds"]
                        rates.setdefault((name, work), []).append(rate)
                if round_number == 0:
                    left[name].order("verify")
            except ContenderError as error:
                lacking.append(f"{sizes.name}: {error}")
                del left[name]
    return {key: Samples(tuple(values)) for key, values in rates.items() if key[0] in left}


def _result(work: str, sizes: Sizes, peer: Peer, own: Samples, theirs: Samples) -> Result:
    return Result.of_samples(
        f"tier/peers/{work}/{sizes.name}/{peer.name}",
        own,
        "GB/s",
        beside=theirs,
        peer=peer.title,
        goal=Goal(">", 1, of="ratio"),
        extra={
            "object_bytes": sizes.object_bytes,
            "objects": sizes.objects,
            "objects_in_a_batch": _BATCH,
            "place": peer.place,
            "own_boundary": "in the caller's process, called from C++",
            "peer_boundary": f"{peer.boundary}, called from Python",
        },
    )
