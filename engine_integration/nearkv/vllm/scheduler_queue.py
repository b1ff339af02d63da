"""vLLM's waiting requests in the order of a policy, which is told what becomes of them."""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from vllm.logger import init_logger
from vllm.v1.core.sched.request_queue import RequestQueue
from vllm.v1.request import Request, RequestStatus

from nearkv.vllm.scheduler_options import SchedulerOptions

logger = init_logger(__name__)

_HASH_MASK = (1 << 64) - 1


class PolicyQueue(RequestQueue):
    """The requests that wait for their turn, and what the policy knows of all others.

    Empty, to whoever asks for its truth, while the policy lets nobody start. A request that was
    popped and does not run at the next look waits for something else.
    """

    def __init__(
        self, options: SchedulerOptions, block_tokens: int, held: Callable[[Request], int]
    ) -> None:
        """`held` gives the blocks that the engine's memory has of a request's beginning."""
        self._advisor = options.make_advisor(block_tokens)
        self._block_tokens = block_tokens
        self._held = held
        self._is_grouped = options.policy == "rollout"
        self._classes = len(options.ttft_s)
        self._tenants = {name: number for number, name in enumerate(options.shares)}
        self._ids: dict[str, int] = {}  # Of all requests that have not ended.
        self._requests: dict[int, Request] = {}
        self._waiting: dict[str, Request] = {}
        self._running: set[str] = set()
        self._popped: Request | None = None
        self._ended: set[str] = set()
        self._next: tuple[Request | None] | None = None  # What the policy said, while it holds.

    def add_request(self, request: Request) -> None:
        """It waits: it is new, was preempted, or was skipped."""
        self.settle()
        if request.request_id in self._ids:
            self._advisor.wait(time.monotonic(), self._ids[request.request_id])
        else:
            self._add(request)
        self._running.discard(request.request_id)
        self._waiting[request.request_id] = request

    def prepend_request(self, request: Request) -> None:
        """As add_request(): where it stands is the policy's to say."""
        self.add_request(request)

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        """As add_request()."""
        for request in list(requests):
            self.add_request(request)

    def peek_request(self) -> Request:
        """Who should start; IndexError if nobody should."""
        request = self._choose()
        if request is None:
            raise IndexError("nobody should start now")
        return request

    def pop_request(self) -> Request:
        """The same, who leaves the queue."""
        request = self.peek_request()
        del self._waiting[request.request_id]
        self._popped, self._next = request, None
        return request

    def remove_request(self, request: Request) -> None:
        """It waits no more."""
        self.remove_requests([request])

    def remove_requests(self, requests: Iterable[Request]) -> None:
        """They wait no more; those that do not wait here are left alone."""
        self.settle()
        for request in requests:
            if self._waiting.pop(request.request_id, None) is not None:
                self._advisor.set_aside(time.monotonic(), self._ids[request.request_id])

    def __bool__(self) -> bool:
        return self._choose() is not None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._waiting.values()))

    def settle(self) -> None:
        """What became of the request popped last is told, and who has ended is gone."""
        self._next = None
        request, self._popped = self._popped, None
        if request is not None:
            if request.status == RequestStatus.RUNNING:
                self.start(request)
            else:
                self._advisor.set_aside(time.monotonic(), self._ids[request.request_id])
        for name in self._ended:
            number = self._ids.pop(name)
            del self._requests[number]
            self._running.discard(name)
            self._advisor.end(time.monotonic(), number)
        self._ended.clear()

    def start(self, request: Request) -> None:
        """It runs, if that was not known; what it found is computed, and nothing else."""
        if request.request_id not in self._running:
            if request.request_id not in self._ids:  # It never waited here.
                self._add(request)
            self._running.add(request.request_id)
            found = request.num_computed_tokens // self._block_tokens
            self._advisor.start(time.monotonic(), self._ids[request.request_id], found)

    def advance(self, request: Request, computed: int, generated: int) -> None:
        """A step has computed tokens of a request, which may have ended with it."""
        if request.request_id in self._running:
            number = self._ids[request.request_id]
            self._advisor.advance(time.monotonic(), number, computed, generated)

    def end(self, request: Request) -> None:
        """It has ended, which is told at the next settle(): its last step still counts."""
        if request.request_id in self._ids:
            self._ended.add(request.request_id)

    def makes_room(self, candidate: Request) -> Request | None:
        """Who of the running is preempted for one that waits."""
        number = self._advisor.makes_room(time.monotonic(), self._ids[candidate.request_id])
        return None if number is None else self._requests[number]

    def order_of_giving_way(self) -> list[Request]:
        """All that run, in the order in which they are preempted when blocks run out."""
        order = self._advisor.order_of_giving_way(time.monotonic())
        return [self._requests[number] for number in order]

    def _choose(self) -> Request | None:
        if self._popped is not None:
            self.settle()
        if self._next is None:
            number = self._advisor.next(
                time.monotonic(), lambda waiting: self._held(self._requests[waiting])
            )
            self._next = (None if number is None else self._requests[number],)
        return self._next[0]

    def _add(self, request: Request) -> None:
        hashes = [int.from_bytes(block[-8:], "big") for block in request.block_hashes]
        said = getattr(request.sampling_params, "extra_args", None) or {}
        tenant = str(said.get("nearkv_tenant", ""))
        group = None
        if self._is_grouped and request.prompt_token_ids:
            tokens = np.asarray(request.prompt_token_ids, "<i4").tobytes()
            group = zlib.crc32(tokens) >> 1
        number = self._advisor.add(
            time.monotonic(),
            prompt_tokens=request.num_prompt_tokens,
            most_output_tokens=request.max_tokens,
            block_hashes=np.asarray(hashes, np.uint64),
            tenant=self._tenants.setdefault(tenant, len(self._tenants)),
            service_class=self._class_of(said.get("nearkv_class", 0)),
            group=group,
        )
        self._ids[request.request_id] = number
        self._requests[number] = request

    def _class_of(self, said: object) -> int:
        if isinstance(said, int) and 0 <= said < self._classes:
            return said
        logger.warning_once("there is no class %r: ttft_s has %d", said, self._classes)
        return self._classes - 1
