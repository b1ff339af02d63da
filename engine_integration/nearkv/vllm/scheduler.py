"""vLLM's scheduler with NearKV's policies: who starts, who makes room, who gives way.

Budgets, blocks and steps stay vLLM's. Its queue of waiting requests is in the policy's order, and
whom it preempts is told it by the priorities of running requests.
"""

import time
from typing import Any, Self

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request

from nearkv.vllm.compat import check_version
from nearkv.vllm.scheduler_options import KEY, SchedulerOptions
from nearkv.vllm.scheduler_queue import PolicyQueue

check_version()


class NearKVScheduler(Scheduler):
    """For `--scheduler-cls`; the policy stands in `--additional-config`."""

    def __new__(cls, vllm_config: Any, *arguments: Any, **named: Any) -> Self:
        """With asynchronous scheduling one that is built on vLLM's for that."""
        is_async = vllm_config.scheduler_config.async_scheduling
        return super().__new__(_AsyncNearKVScheduler if is_async else cls)

    def __init__(self, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        options = SchedulerOptions.parse(vllm_config.additional_config)
        if vllm_config.scheduler_config.policy != "fcfs":
            raise ValueError(
                f"--scheduling-policy {vllm_config.scheduler_config.policy} and {KEY} exclude each "
                "other: leave it out; slo has classes"
            )
        super().__init__(vllm_config, *arguments, **named)
        self.waiting = self._policy = PolicyQueue(options, self.hash_block_size, self._held)
        self._makes_room = options.makes_room
        # Then vLLM preempts whose priority number is greatest, wherever it runs.
        self.policy = SchedulingPolicy.PRIORITY

    def schedule(self, *arguments: Any, **named: Any) -> Any:
        """A step of vLLM's; before it room is made, and who would give way is named."""
        self._policy.settle()
        if self._makes_room:
            self._make_room()
        self._rank_running()
        return super().schedule(*arguments, **named)

    def _update_after_schedule(self, *arguments: Any, **named: Any) -> None:
        # What requests found is still all that they have computed.
        self._policy.settle()
        for request in self.running:
            self._policy.start(request)
        super()._update_after_schedule(*arguments, **named)

    def update_from_output(self, scheduler_output: Any, *arguments: Any, **named: Any) -> Any:
        """vLLM's; the policy hears what was computed."""
        computed = [
            (request, tokens, request.num_output_tokens)
            for name, tokens in scheduler_output.num_scheduled_tokens.items()
            if (request := self.requests.get(name)) is not None
        ]
        outputs = super().update_from_output(scheduler_output, *arguments, **named)
        for request, tokens, before in computed:
            self._policy.advance(request, tokens, request.num_output_tokens - before)
        self._policy.settle()
        return outputs

    def _free_request(self, request: Request, *arguments: Any, **named: Any) -> Any:
        self._policy.end(request)
        return super()._free_request(request, *arguments, **named)

    def _held(self, request: Request) -> int:
        """Blocks of a request's beginning that vLLM's cache has.

        What is cached of a prefix is, but for gaps, its beginning: a few looks find where it ends.
        """
        if not self.cache_config.enable_prefix_caching:
            return 0
        pool, hashes = self.kv_cache_manager.block_pool, request.block_hashes
        low, high = 0, min(len(hashes), (request.num_tokens - 1) // self.hash_block_size)
        while low < high:
            middle = (low + high) // 2
            if pool.get_cached_block(hashes[middle], [0]):
                low = middle + 1
            else:
                high = middle
        return low

    def _make_room(self) -> None:
        """Preempts for those whom the policy puts before who runs."""
        for _ in range(len(self.running)):
            candidate = self._policy.peek_request() if self._policy else None
            if candidate is None or self._has_room(candidate):
                return
            victim = self._policy.makes_room(candidate)
            if victim is None or not self._request_blocks_can_be_freed(victim):
                return
            self.running.remove(victim)
            # As schedule() does where blocks run out.
            drop = self.requires_kv_delivery
            self._preempt_request(victim, time.monotonic(), drop_stale_output=drop)

    def _has_room(self, candidate: Request) -> bool:
        blocks = -(-candidate.num_tokens // self.block_size) - self._held(candidate)
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        return len(self.running) < self.max_num_running_reqs and blocks <= free

    def _rank_running(self) -> None:
        """Where blocks may run out in this step, the order of those who stop."""
        groups = len(self.kv_cache_config.kv_cache_groups)
        most = self.max_num_scheduled_tokens // self.block_size + 2 * len(self.running)
        if self.kv_cache_manager.block_pool.get_num_free_blocks() >= groups * most:
            return
        for rank, request in enumerate(reversed(self._policy.order_of_giving_way())):
            request.priority = rank


class _AsyncNearKVScheduler(NearKVScheduler, AsyncScheduler):
    """The same, built on vLLM's scheduler for asynchronous engines."""
