"""Attention near the data that a GPU asks for by itself: the host is not part of a step."""

import ctypes
import struct
from collections.abc import Sequence

import _nearkv
import torch
from nkv_abi import ATTEND_COMMAND, BURST_BYTES, COMPLETION, MAX_GROUP, Opcode

from nearkv.core import Device, LentQueue, Pool, Status
from nearkv.cuda import structures
from nearkv.cuda.library import DTYPES
from nearkv.cuda.memory import RegisteredMemory
from nearkv.cuda.ops import merge_parts
from nearkv.far import FarAttention

_NS = 1_000_000_000


def _whole_bursts(size: int) -> int:
    return -(-size // BURST_BYTES) * BURST_BYTES


class NearQueue:
    """A queue of a device that a GPU's kernels work, in the device's memory from `begin` on.

    That memory, of which `bytes(..)` says how much is needed, is nobody else's: create the pool
    with memory_bytes=begin. One stream at a time works a queue. Raises Error.
    """

    def __init__(
        self,
        memory: RegisteredMemory,
        device: Device,
        begin: int,
        *,
        index: int = 1,
        entries: int = 64,
    ) -> None:
        self.memory = memory
        rings_at = begin + LentQueue.doorbell_bytes()
        self.room_at = rings_at + LentQueue.bytes(entries)
        if begin % BURST_BYTES or self.room_at >= memory.bytes:
            _nearkv.check(Status.BAD_ARGUMENT, "there is no room for a queue behind the pool")
        self.entries = entries
        self._lent: LentQueue | None = LentQueue(
            device, index=index, ring_entries=entries, rings_at=rings_at, doorbells_at=begin
        )
        places = structures.QueuePlaces(
            window=memory.start,
            window_bytes=memory.bytes,
            submissions=memory.start + self._lent.submissions_at,
            completions=memory.start + self._lent.completions_at,
            doorbell=memory.start + self._lent.doorbell_at,
            entries=entries,
        )
        self.handle = ctypes.c_void_p()
        memory.gpu.call("queue_open", places, ctypes.byref(self.handle))

    @staticmethod
    def bytes(entries: int = 64) -> int:
        """Memory of the device that rings and doorbells take; queries and results lie behind."""
        return LentQueue.doorbell_bytes() + LentQueue.bytes(entries)

    def check(self) -> None:
        """Waits for the GPU; raises Error if a command failed or did not end in time."""
        report = structures.QueueReport()
        self.memory.gpu.call("queue_state", self.handle, report, self.memory.gpu.stream())
        if report.status == Status.TIMEOUT:
            _nearkv.check(report.status, "the device did not answer in time; open the queue anew")
        if report.status != Status.OK:
            text = f"command {report.index} of a submission failed, detail {report.detail}"
            _nearkv.check(report.status, f"{text}: {Status(report.status).name}")

    def resume(self) -> None:
        """Lets the queue go on after a command's failure. Raises Error after a time-out."""
        self.memory.gpu.call("queue_resume", self.handle, self.memory.gpu.stream())

    def close(self) -> None:
        """Waits for the GPU and gives the queue back."""
        if self._lent is not None:
            self.memory.gpu.forget(self.handle)
            self._lent = None

    def __enter__(self) -> "NearQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NearAttention:
    """One layer's attention in a pool, for a batch: a command for each KV head of a sequence.

    `submit` and `result` are kernels on the current stream, with whatever else the GPU does between
    them; both can be captured into a graph, which then submits at each replay. Commands name the
    pages that the sequences have now: make it anew when they change. Query heads of a KV head lie
    together. `room_at` is where in the device's memory, behind the queue, queries and results go,
    `end` where they end. Raises Error.
    """

    def __init__(
        self,
        queue: NearQueue,
        pool: Pool,
        sequences: Sequence[int],
        layer: int,
        *,
        group: int,
        scale: float,
        dtype: torch.dtype = torch.bfloat16,
        soft_cap: float = 0.0,
        window: int = 0,
        far: FarAttention | None = None,
        timeout_s: float = 10.0,
        room_at: int | None = None,
    ) -> None:
        if not 1 <= group <= MAX_GROUP or dtype not in DTYPES:
            raise ValueError(f"a group is 1 to {MAX_GROUP} rows of bf16, fp16 or fp32")
        self._queue = queue
        self._shape = (len(sequences), pool.kv_heads, group)
        self._dim, self._dtype = pool.value_dim, dtype
        self._timeout_ns = int(timeout_s * _NS)
        count = len(sequences) * pool.kv_heads
        if count > queue.entries:
            raise ValueError(f"{count} commands do not fit a ring of {queue.entries} entries")
        self._query_bytes = group * pool.head_dim * dtype.itemsize
        self._lse_at = _whole_bursts(group * pool.value_dim * 4)
        self._result_bytes = self._lse_at + 2 * _whole_bursts(group * 4)
        begin = queue.room_at if room_at is None else room_at
        self._results_at = begin + count * _whole_bursts(self._query_bytes)
        self.end = self._results_at + count * self._result_bytes
        if self.end > queue.memory.bytes:
            _nearkv.check(Status.BAD_ARGUMENT, "queries and results do not fit behind the queue")
        options = (far or FarAttention()).options()
        commands = bytearray()
        for row, sequence in enumerate(sequences):
            for head in range(pool.kv_heads):
                page_list, tokens = pool.page_list(sequence, layer, head)
                at = row * pool.kv_heads + head
                commands += struct.pack(
                    ATTEND_COMMAND.format,
                    Opcode.ATTEND,
                    0,
                    0,
                    pool.head_dim,
                    pool.value_dim,
                    tokens,
                    window,
                    begin + at * _whole_bursts(self._query_bytes),
                    page_list,
                    self._results_at + at * self._result_bytes,
                    scale,
                    soft_cap,
                    0,
                    0,
                    options["top_k"],
                    options["mode"],
                    group,
                    DTYPES[dtype],
                    0,
                    options["error"],
                    options["seed"],
                )
        where = queue.memory.where
        self._commands = torch.frombuffer(commands, dtype=torch.uint8).to(where)
        self._taken = torch.zeros(count * COMPLETION.size_bytes, dtype=torch.uint8, device=where)
        self._count = count
        self._queries: torch.Tensor | None = None

    def submit(self, query: torch.Tensor) -> None:
        """Hands over queries [batch, kv_heads, group, head_dim]; kept until the result is there."""
        if query.shape[:3] != self._shape or query.dtype != self._dtype:
            raise ValueError(f"queries are {self._shape} rows of {self._dtype}")
        self._queries = query.contiguous()
        work = structures.Submission(
            commands=self._commands.data_ptr(),
            queries=self._queries.data_ptr(),
            count=self._count,
            query_bytes=self._query_bytes,
        )
        self._call("queue_submit", work)

    def result(self, *here: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 of the pool's part, merged with up to three parts that are here.

        Shapes as attend_window's. What went wrong is told by NearQueue.check; the result then means
        nothing.
        """
        self._call(
            "queue_wait", self._count, self._timeout_ns, ctypes.c_void_p(self._taken.data_ptr())
        )
        memory = self._queue.memory
        rows = self._count * self._shape[2]
        output = torch.empty(rows, self._dim, dtype=torch.float32, device=memory.where)
        lse = torch.empty(rows, dtype=torch.float32, device=memory.where)
        pitch = self._result_bytes // 4
        source = structures.Parts(
            output=memory.start + self._results_at,
            lse=memory.start + self._results_at + self._lse_at,
            output_block=pitch,
            lse_block=pitch,
            group=self._shape[2],
            count=1,
        )
        work = structures.Merge(
            output=output.data_ptr(),
            lse=lse.data_ptr(),
            rows=rows,
            value_dim=self._dim,
            sources=1,
        )
        work.source[0] = source
        memory.gpu.call("merge", work, memory.gpu.stream())
        if here:
            pairs = [(output, lse), *((o.reshape(rows, -1), s.reshape(rows)) for o, s in here)]
            output, lse = merge_parts([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        return output.view(*self._shape, self._dim), lse.view(self._shape)

    def _call(self, name: str, *arguments: object) -> None:
        gpu = self._queue.memory.gpu
        gpu.call(name, self._queue.handle, *arguments, gpu.stream())
