"""Runs in vLLM's environment: engines with and without attention near the data, in one process.

Its argument: {"entry_points": a folder of a distribution's, "batches": {NAME: [[prompt, ..], ..]},
"runs": [{"model", "batches": a name, "tokens": to generate, "options": of the engine, "rounded":
whether a plain engine shall cache K and V as a pool has them, "keeps": a name under which what it
caches is kept, "takes": one whose K and V it caches instead of its own, "flaw": one to seed,
"flash": whether it takes NearKV's backend for GPUs, with kernels in torch}, ..]}.
Its last line: for each run {"tokens", "logprobs", "cached"} by prompt, {"pages"} of each pool after
each batch, {"counts"} of each pool of each rank, {"to_pool_bytes", "from_pool_bytes", "near_bytes"}
of the first rank, "in_place_queries" that attended to vLLM's blocks, "codes" beside those and what
they were used for, "preemptions", "flash_calls"
of those kernels, "steps" that only decoded and the "cpu_us" of one by part, "is_extension_loaded",
"turned": of the elements of K and V that it took the share that it had rounded otherwise; or
{"error"}.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import ClassVar
from unittest.mock import patch

import flash_in_torch
import torch
from flash_in_torch import flash_attention
from program import each, question, tell
from vllm import LLM, SamplingParams
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.core.sched.scheduler import Scheduler
from vllm_options import forget_engine, small_engine

QUESTION = question()
sys.path.insert(0, QUESTION["entry_points"])
LOGPROBS = 4  # The best of them, of each token.
PLAIN_UPDATE = CPUAttentionBackendImpl.do_kv_cache_update


class CachedRows:
    """What a plain engine caches in one run: `update` is in place of vLLM's own."""

    _kept: ClassVar[dict[str, list[tuple[torch.Tensor, torch.Tensor]]]] = {}

    def __init__(self, run: dict) -> None:
        self._rounds = run.get("rounded", False)
        self._keeps = self._kept.setdefault(run["keeps"], []) if "keeps" in run else None
        self._takes = iter(self._kept[run["takes"]]) if "takes" in run else None
        self._taken = self._turned = 0

    @property
    def turned(self) -> float:
        return self._turned / max(1, self._taken)

    def update(self, impl, layer, key, value, *rest) -> None:
        rows = key, value
        if self._rounds:
            rows = tuple(each.bfloat16().to(each.dtype) for each in rows)
        if self._keeps is not None:
            self._keeps.append(tuple(each.clone() for each in rows))
        if self._takes is not None:
            rows = tuple(map(self._in_place_of, rows, next(self._takes)))
        PLAIN_UPDATE(impl, layer, *rows, *rest)

    def _in_place_of(self, own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """The other's, which are the same numbers but for how they were rounded."""
        torch.testing.assert_close(own, other, rtol=2**-7, atol=1e-4)
        self._taken += own.numel()
        self._turned += int((own != other).sum())
        return other


def seeded(flaw: str | None) -> AbstractContextManager:
    """One thing broken, to see that it is seen."""
    if flaw == "unmerged":
        return patch("nearkv.vllm.far_step.merge", lambda here, far: here)
    if flaw == "stale":
        return patch("nearkv.vllm.far_pages.FarPages._forget_written", lambda self, slots: None)
    return nullcontext()


class Meter:
    """CPU time of this process in parts of the attention, in steps that only decode."""

    def __init__(self) -> None:
        self.steps = self.preemptions = 0
        self._seconds: Counter[str] = Counter()
        self._is_decode = False

    def patches(self, is_far: bool) -> ExitStack:
        """While it is entered, everything is measured; a part has those within it."""
        parts = [
            (CPUAttentionMetadataBuilder, "build", "vllm"),
            (CPUAttentionBackendImpl, "forward", "vllm"),
        ]
        if is_far:
            from nearkv.core import Pool
            from nearkv.vllm.attention import FarBuilder, FarImpl

            parts += [(FarBuilder, "build", "all"), (FarImpl, "forward", "all")]
            parts += [(Pool, "attend", "pool"), (Pool, "append", "pool")]
        outermost = FarBuilder if is_far else CPUAttentionMetadataBuilder
        stack = ExitStack()
        for owner, name, part in parts:
            timed = self._timed(getattr(owner, name), part)
            stack.enter_context(patch.object(owner, name, timed))
        begin = outermost.build

        def build(*arguments, **named):
            common = named.get("common_attn_metadata") or arguments[2]
            self._is_decode = common.max_query_len == 1
            self.steps += self._is_decode
            return begin(*arguments, **named)

        preempt = Scheduler._preempt_request

        def preempted(*arguments, **named):
            self.preemptions += 1
            return preempt(*arguments, **named)

        stack.enter_context(patch.object(outermost, "build", build))
        stack.enter_context(patch.object(Scheduler, "_preempt_request", preempted))
        return stack

    def cpu_us(self) -> dict[str, float]:
        """By part, of a step."""
        return {part: 1e6 * took / self.steps for part, took in self._seconds.items()}

    def _timed(self, call: Callable, part: str) -> Callable:
        def timed(*arguments, **named):
            began = time.process_time()
            answer = call(*arguments, **named)
            self._seconds[part] += (time.process_time() - began) * self._is_decode
            return answer

        return timed


def builders_of(worker) -> list:
    groups = [group for of_cache in worker.model_runner.attn_groups for group in of_cache]
    return [group.metadata_builders[0] for group in groups]


def pages_of(worker) -> list:
    return [builder.pages for builder in builders_of(worker) if getattr(builder, "pages", None)]


def in_place_queries_of(worker) -> int:
    return sum(getattr(builder, "attended_queries", 0) for builder in builders_of(worker))


def codes_of(worker) -> list[dict[str, int]]:
    return [builder.counts() for builder in builders_of(worker) if hasattr(builder, "counts")]


def counts_of(worker) -> list[dict[str, int]]:
    return [vars(pages.counts) for pages in pages_of(worker)]


def run_engine(run: dict) -> dict:
    cached_rows = CachedRows(run)
    CPUAttentionBackendImpl.do_kv_cache_update = lambda *given: cached_rows.update(*given)
    options = small_engine(run["options"])
    # A torch.dtype may be one that has no name on a command line.
    options["dtype"] = getattr(torch, options["dtype"])
    engine = LLM(model=run["model"], tokenizer=run["model"], **options)
    tokens, logprobs, cached, pages = [], [], [], []
    sampling = SamplingParams(
        temperature=0, max_tokens=run["tokens"], ignore_eos=True, logprobs=LOGPROBS
    )
    # Workers of several ranks are processes of their own, which are only asked to count.
    is_here = options.get("tensor_parallel_size", 1) == 1
    groups = pages_of(engine.llm_engine.model_executor.driver_worker.worker) if is_here else []
    meter = Meter()
    try:
        with meter.patches(is_far=bool(groups)):
            for batch in QUESTION["batches"][run["batches"]]:
                asked = [{"prompt_token_ids": prompt} for prompt in batch]
                for output in engine.generate(asked, sampling, use_tqdm=False):
                    (answer,) = output.outputs
                    tokens.append(list(answer.token_ids))
                    cached.append(output.num_cached_tokens)
                    logprobs.append([named(step) for step in answer.logprobs])
                pages.append([group.pool.usage().pages for group in groups])
            counts = engine.collective_rpc(counts_of)
            in_place_queries = engine.collective_rpc(in_place_queries_of)
            codes = engine.collective_rpc(codes_of)
    finally:
        engine.llm_engine.engine_core.shutdown()
    stats = [group.pool.stats() for group in groups]
    return {
        "tokens": tokens,
        "logprobs": logprobs,
        "cached": cached,
        "pages": pages,
        "counts": [each for rank in counts for each in rank],
        "to_pool_bytes": sum(each.link_to_device_bytes for each in stats),
        "from_pool_bytes": sum(each.link_from_device_bytes for each in stats),
        "near_bytes": sum(each.near_bytes for each in stats),
        "in_place_queries": sum(in_place_queries),
        "codes": [each for rank in codes for each in rank],
        "preemptions": meter.preemptions,
        "flash_calls": flash_in_torch.calls,
        "steps": meter.steps,
        "cpu_us": meter.cpu_us(),
        "is_extension_loaded": "_nearkv" in sys.modules,
        "turned": cached_rows.turned,
    }


def named(step: dict) -> dict[str, float]:
    return {str(token): said.logprob for token, said in step.items()}


def answer(run: dict) -> dict:
    with seeded(run.get("flaw")), flash_attention(run.get("flash", False)):
        return run_engine(run)


if __name__ == "__main__":
    torch.set_num_threads(1)
    tell(each(QUESTION["runs"], answer, forget_engine))
