"""Ranks in processes of their own, over gloo, that are given jobs and answer."""

import multiprocessing
import os
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from nearkv.parallel import Links, RankFailed

# Processes are forked from one that has torch already.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "nearkv.parallel"])


class World(AbstractContextManager):
    """`size` processes, each with its Links; a context manager."""

    def __init__(self, size: int, *, bound_s: float = 60.0) -> None:
        self.size = size
        self._pipes: list[Connection] = []
        self.processes = []
        for rank in range(size):
            pipe, theirs = _context.Pipe()
            arguments = (theirs, rank, size, bound_s)
            process = _context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(pipe)
            self.processes.append(process)
        port = self._pipes[0].recv()
        for pipe in self._pipes[1:]:
            pipe.send(port)

    def run(self, job: Callable, *arguments: Any, ranks: int | None = None) -> list[Any]:
        """What job(links, *arguments) gives on each of the first `ranks` ranks, which run it."""
        count = ranks or self.size
        for pipe in self._pipes[:count]:
            pipe.send((job, arguments, count))
        answers = [pipe.recv() for pipe in self._pipes[:count]]
        failed = [f"rank {rank}: {answer}" for rank, (ok, answer) in enumerate(answers) if not ok]
        assert not failed, "\n".join(failed)
        return [answer for _, answer in answers]

    def start(self, job: Callable, *arguments: Any) -> None:
        """Begins a job on all ranks; answer() has what comes of it."""
        for pipe in self._pipes:
            pipe.send((job, arguments, self.size))

    def answer(self, rank: int, timeout_s: float) -> Any:
        """Of a job that was started. Raises TimeoutError."""
        if not self._pipes[rank].poll(timeout_s):
            raise TimeoutError(f"rank {rank} said nothing within {timeout_s} s")
        ok, answer = self._pipes[rank].recv()
        assert ok, answer
        return answer

    def close(self) -> list[int | None]:
        """Ends the processes; their exit codes."""
        for pipe in self._pipes:
            with suppress(BrokenPipeError):
                pipe.send(None)
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
        return [process.exitcode for process in self.processes]

    def __exit__(self, *failure: object) -> None:
        self.close()


def _serve(pipe: Connection, rank: int, size: int, bound_s: float) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        pipe.send(store.port)
    else:
        store = dist.TCPStore("127.0.0.1", pipe.recv())
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    with Links(bound_s=bound_s) as links:
        while (order := pipe.recv()) is not None:
            job, arguments, count = order
            try:
                pipe.send((True, job(links.among(range(count)), *arguments)))
            except Exception as failure:
                if not isinstance(failure, RankFailed):
                    links.abort(f"failed: {failure!r}")
                pipe.send((False, traceback.format_exc()))
    dist.destroy_process_group()
