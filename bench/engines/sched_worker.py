"""A vLLM engine that is asked many prompts at once, on orders; runs in vLLM's environment.

Its argument: {"model": FOLDER, "options": of the engine}. An order `load [{"tokens", "most",
"at_step", "extra"}, ..]` adds each request before that step, and answers {"ttft_s" and "cached",
tokens that were not computed, and "tokens" of each, "preempted", "seconds"}; afterwards the
engine's own cache is empty.
"""

import json
import os
import sys
import time
from typing import Any

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

from vllm import LLM, SamplingParams

from bench.engines.orders import serve


class ScheduledEngine:
    """One engine, and how it serves a load."""

    def __init__(self, model: str, options: dict[str, Any]) -> None:
        common = {"dtype": "bfloat16", "enforce_eager": True, "block_size": 64, "seed": 0}
        self._llm = LLM(model=model, **common | options)
        self._engine = self._llm.llm_engine
        scheduler = self._engine.engine_core.engine_core.scheduler
        self._preempted = 0
        preempt = scheduler._preempt_request

        def counting(*arguments: Any, **named: Any) -> Any:
            self._preempted += 1
            return preempt(*arguments, **named)

        scheduler._preempt_request = counting

    def load(self, asks: list[dict[str, Any]]) -> dict[str, Any]:
        """Serves all of a load."""
        self._preempted, step = 0, 0
        arrived, first, cached, tokens = {}, {}, {}, {}
        left = sorted(range(len(asks)), key=lambda number: asks[number]["at_step"])
        began_s = time.perf_counter()
        while left or self._engine.has_unfinished_requests():
            while left and asks[left[0]]["at_step"] <= step:
                number = left.pop(0)
                arrived[number] = time.perf_counter()
                self._add(number, asks[number])
            for output in self._engine.step():
                number = int(output.request_id)
                if output.outputs[0].token_ids and number not in first:
                    first[number] = time.perf_counter() - arrived[number]
                    cached[number] = output.num_cached_tokens
                tokens[number] = list(output.outputs[0].token_ids)
            step += 1
        seconds = time.perf_counter() - began_s
        assert self._llm.reset_prefix_cache()
        numbers = range(len(asks))
        return {
            "ttft_s": [first[number] for number in numbers],
            "cached": [cached[number] for number in numbers],
            "tokens": [tokens[number] for number in numbers],
            "preempted": self._preempted,
            "seconds": seconds,
        }

    def close(self) -> None:
        """Ends the engine."""
        self._engine.engine_core.shutdown()

    def _add(self, number: int, ask: dict[str, Any]) -> None:
        sampling = SamplingParams(
            temperature=0, max_tokens=ask["most"], ignore_eos=True, extra_args=ask["extra"] or None
        )
        self._engine.add_request(str(number), {"prompt_token_ids": ask["tokens"]}, sampling)


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(lambda: ScheduledEngine(**made), {"load": ScheduledEngine.load})
