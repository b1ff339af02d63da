"""Counted, timed and bounded communication between ranks: isend and irecv of torch.distributed.

with Links(bound_s=30) as links:                       # after init_process_group, on every rank
    links.exchange([(right, key)], [(left, buffer)]).wait()
"""

import itertools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from nearkv.parallel.watch import RankFailed, Watch

Message = tuple[int, torch.Tensor]
"""A rank, and what goes to it or where to put what comes from it."""

_FOREVER = timedelta(days=365)
_MOMENT = timedelta(milliseconds=1)
_numbers = itertools.count()  # Alike on all ranks, which make their Links in the same order.


@dataclass(eq=False)
class Transfer:
    """What one exchange sends and receives, and when."""

    _watch: Watch = field(repr=False)
    sent_bytes: int
    received_bytes: int
    posted_s: float = field(default_factory=time.perf_counter)
    done_s: float | None = None
    waited_s: float = 0.0
    """How long the caller stood still for it: to begin it, and in wait()."""
    _works: list[tuple[Any, int]] = field(default_factory=list, repr=False)
    _of_streams: list[Any] = field(default_factory=list, repr=False)
    _tensors: list[torch.Tensor] = field(default_factory=list, repr=False)
    _arrivals: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list, repr=False)

    def wait(self) -> None:
        """Until all of it has come and gone. Raises RankFailed within the bound if it never will.

        On a GPU it returns at once, and the current stream waits; NCCL's own timeout bounds that.
        """
        watch, began_s = self._watch, time.perf_counter()
        for work in self._of_streams:
            work.wait()
        if self.done_s is None:
            watch.wait_for(lambda: self.done_s is not None, self._works[-1][1])
        if self.done_s is None:
            watch.check()
        for tensor, staged in self._arrivals:
            tensor.copy_(staged)
        self.waited_s += time.perf_counter() - began_s
        self._tensors.clear()
        self._arrivals.clear()


class Links(AbstractContextManager):
    """This rank's links to the others.

    Every rank makes its Links at the same time. `bound_s` is how soon a rank that died is noticed,
    and how long the others wait for one that lives: longer than any computes between two
    exchanges. A failure of one rank, an exception that leaves its `with` included, is RankFailed on
    all of them, at their next exchange or wait, and stays. Not thread-safe.
    """

    def __init__(self, *, bound_s: float = 60.0) -> None:
        if not dist.is_initialized():
            raise RuntimeError("there is no process group: torch.distributed.init_process_group()")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.ranks = tuple(range(self.size))
        store = dist.distributed_c10d._get_default_store()
        name = f"links/{next(_numbers)}"
        self._wire = _Wire(Watch.over(store, name, self.rank, self.size, bound_s=bound_s))

    def among(self, ranks: Sequence[int]) -> "Links":
        """These links between some of the ranks alone, which are numbered anew in this order.

        This rank has to be one of them.
        """
        part = object.__new__(Links)
        part.ranks = tuple(self.ranks[rank] for rank in ranks)
        part.rank, part.size = list(ranks).index(self.rank), len(ranks)
        part._wire = self._wire
        return part

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> Transfer:
        """Begins to send and to receive; tensors stay as they are until wait().

        Both sides name the same messages in the same order; those without elements are not sent.
        Received tensors are contiguous.
        """
        named = [
            [(self.ranks[rank], tensor) for rank, tensor in messages if tensor.numel()]
            for messages in (sends, receives)
        ]
        return self._wire.exchange(*named)

    def gather(self, part: torch.Tensor, counts: Sequence[int], dim: int) -> list[torch.Tensor]:
        """What each rank has, to every rank: rank r's part has counts[r] along `dim`."""
        parts = []
        for rank, count in enumerate(counts):
            shape = (*part.shape[:dim], count, *part.shape[dim + 1 :])
            parts.append(part if rank == self.rank else part.new_empty(shape))
        others = [rank for rank in range(self.size) if rank != self.rank]
        sends = [(rank, part) for rank in others]
        self.exchange(sends, [(rank, parts[rank]) for rank in others]).wait()
        return parts

    @contextmanager
    def recorded(self) -> Iterator[list[Transfer]]:
        """The transfers of what runs within, in their order."""
        self._wire.record = record = []
        try:
            yield record
        finally:
            self._wire.record = None

    def abort(self, why: str) -> None:
        """Makes this rank fail, on all ranks: RankFailed says why."""
        self._wire.watch.blame(self.ranks[self.rank], why)

    def close(self) -> None:
        """Leaves, when all that was begun has come and gone; not for longer than the bound.

        Rank 0 waits for the others as well: its process holds the store.
        """
        self._wire.close()

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        if failure is not None and not isinstance(failure, RankFailed):
            self.abort(f"failed: {failure!r}")
        self.close()


class _Wire:
    """What all Links of a process share: the watch, and a thread that waits for transfers."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.record: list[Transfer] | None = None
        self._awaited: Any = None
        self._is_given_up = False
        self._posted: queue.SimpleQueue[Transfer | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nearkv links", daemon=True)
        self._thread.start()

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> Transfer:
        self.watch.check()
        transfer = Transfer(self.watch, _bytes_of(sends), _bytes_of(receives))
        sends = [(rank, _staged(tensor.contiguous())) for rank, tensor in sends]
        rooms = [(rank, _room(tensor)) for rank, tensor in receives]
        pairs = zip(receives, rooms, strict=True)
        transfer._arrivals += [(t, room) for (_, t), (_, room) in pairs if room is not t]
        receives = rooms
        transfer._tensors += [tensor for _, tensor in (*sends, *receives)]
        if self.record is not None:
            self.record.append(transfer)
        if transfer._tensors and transfer._tensors[0].is_cuda:
            transfer._of_streams = self._post_to_streams(sends, receives)
            transfer.done_s = time.perf_counter()
        elif transfer._tensors:
            self._post(transfer, dist.isend, sends)
            self._post(transfer, dist.irecv, receives)
            self._posted.put(transfer)
        else:
            transfer.done_s = transfer.posted_s
        transfer.waited_s = time.perf_counter() - transfer.posted_s
        return transfer

    def close(self) -> None:
        # A thread that is still within torch when Python ends aborts the process.
        self._posted.put(None)
        if not self.watch.failure:
            self._thread.join(self.watch.bound_s)
        self._is_given_up = True
        if awaited := self._awaited:
            # Nothing else ends gloo's wait for a rank that hangs: time-outs close connections.
            with suppress(RuntimeError):
                awaited.wait(_MOMENT)
        self._thread.join(self.watch.bound_s)
        self.watch.close()

    def _post(self, transfer: Transfer, post: Any, messages: Sequence[Message]) -> None:
        for rank, tensor in messages:
            try:
                transfer._works.append((post(tensor, rank), rank))
            except RuntimeError as error:
                self.watch.blame(rank, f"closed its connection ({_first_line(error)})")
                self.watch.check()

    @staticmethod
    def _post_to_streams(sends: Sequence[Message], receives: Sequence[Message]) -> list[Any]:
        operations = [dist.P2POp(dist.isend, tensor, rank) for rank, tensor in sends]
        operations += [dist.P2POp(dist.irecv, tensor, rank) for rank, tensor in receives]
        return dist.batch_isend_irecv(operations)

    def _run(self) -> None:
        """Waits for each transfer: torch gives no other way to learn that one is done."""
        while (transfer := self._posted.get()) is not None and not self.watch.failure:
            for work, rank in transfer._works:
                if not self._finish(work, rank):
                    return
            with self.watch.changed:
                transfer.done_s = time.perf_counter()
                self.watch.changed.notify_all()

    def _finish(self, work: Any, rank: int) -> bool:
        self._awaited = work
        if self._is_given_up:
            return False
        try:
            # Who awaits it in Python keeps the bound: gloo closes all connections when its is up.
            work.wait(_FOREVER)
        except RuntimeError as error:
            if not self._is_given_up:
                self.watch.blame(rank, f"closed its connection ({_first_line(error)})")
            return False
        finally:
            self._awaited = None
        return True


def _is_staged(tensor: torch.Tensor) -> bool:
    """Whether it passes through host memory: gloo, which mixes GPUs and CPUs, takes no other."""
    return tensor.device.type != "cpu" and dist.get_backend() == "gloo"


def _staged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu() if _is_staged(tensor) else tensor


def _room(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="cpu") if _is_staged(tensor) else tensor


def _bytes_of(messages: Sequence[Message]) -> int:
    return sum(tensor.nbytes for _, tensor in messages)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rpartition("cc:")[2].partition("] ")[2].partition(". ")[0]
