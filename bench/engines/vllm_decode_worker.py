"""A vLLM engine whose decode steps are timed, in NearKV's kernels and in its own by turns.

Runs in vLLM's environment. Its argument: {"model": FOLDER, "threads", "tokens": most that its
requests have together, "block_tokens", "attention": what additional_config says of it}. Orders:
`fill {"requests", "tokens", "way", ..}` computes so many prompts, which decode from then on, and
ends others;
`turn {"way", "count"}` decodes so many steps with its "own" attention, "near", or "none", whose
tokens mean nothing, and answers {"seconds": of each step but the first};
`held {}` answers {"kv_bytes": of K and V that the last step attended to, "resident_bytes": of the
process};
`used {}` answers {"read_share": of K and V that were attended to by codes so far, the part read};
`read {}` answers {"gb_per_s": of a plain read of memory by all threads};
`answer {"tokens", "new_tokens"}` gives {"own": [TOKEN, ..], "near": .., "difference": the largest
of a log-probability before the first token that differs}.
"""

import json
import os
import sys
from typing import Any

from bench.engines.orders import serve
from bench.engines.steps import plain_read_gb_per_s, resident_bytes, seconds_of_turn
from bench.quiet import as_a_program_of_its_own

as_a_program_of_its_own(json.loads(sys.argv[1])["threads"])
os.environ |= {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

import torch  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl  # noqa: E402

from bench.engines.shapes import slice_of, tokens_of_the_document  # noqa: E402
from nearkv.vllm.in_place import InPlaceImpl  # noqa: E402
from nearkv.vllm.plugin import register  # noqa: E402

_WAYS = ("own", "near")
_attention = InPlaceImpl.forward
_own_attention = CPUAttentionBackendImpl.forward
_LONGEST = 8192  # Tokens of a request.


class _Calls:
    """How often layers attended in vLLM's own kernel."""

    own = 0


def _counted(*arguments: Any, **named: Any) -> torch.Tensor:
    _Calls.own += 1
    return _own_attention(*arguments, **named)


CPUAttentionBackendImpl.forward = _counted


def _no_attention(*_: Any, output: torch.Tensor, **__: Any) -> torch.Tensor:
    """What stands in for a layer's attention, so that the rest of a step can be timed."""
    return output.zero_()


class DecodeEngine:
    """Requests that decode together, and steps of theirs."""

    def __init__(
        self, model: str, threads: int, tokens: int, block_tokens: int, attention: dict[str, Any]
    ) -> None:
        register()
        torch.set_num_threads(threads)
        self._text = tokens_of_the_document(model)
        self._llm = LLM(
            model=model,
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=_LONGEST,
            max_num_batched_tokens=2048,
            max_num_seqs=32,
            block_size=block_tokens,
            num_gpu_blocks_override=max(tokens, _LONGEST) // block_tokens + 64,
            enable_prefix_caching=False,
            async_scheduling=False,
            disable_log_stats=True,
            additional_config={"nearkv_attention": attention},
            seed=0,
        )
        self._engine = self._llm.llm_engine
        runner = self._engine.model_executor.driver_worker.worker.model_runner
        groups = [group for of_cache in runner.attn_groups for group in of_cache]
        self._builders = [group.metadata_builders[0] for group in groups]
        self._token_bytes = sum(
            cache[0, :, :1].numel() * cache.element_size() for cache in runner.kv_caches
        )
        self._lengths: dict[str, int] = {}

    def fill(self, order: dict[str, Any]) -> dict[str, Any]:
        """Ends all requests, and computes the prompts of new ones."""
        self._engine.abort_request([*self._lengths])
        self._take_turn(order["way"])
        sampling = SamplingParams(
            temperature=0, max_tokens=_LONGEST - order["tokens"], ignore_eos=True, detokenize=False
        )
        self._lengths = {}
        for number in range(order["requests"]):
            prompt = [*slice_of(self._text, number, order["tokens"])]
            self._engine.add_request(f"{number}", {"prompt_token_ids": prompt}, sampling)
            self._lengths[f"{number}"] = len(prompt)
        while any(length == order["tokens"] for length in self._lengths.values()):
            self._step()
        return {}

    def turn(self, order: dict[str, Any]) -> dict[str, Any]:
        """Seconds of steps that attend in one of the ways."""
        self._take_turn(order["way"])
        queries, calls = self._queries_in_place(), _Calls.own
        seconds = seconds_of_turn(order["count"], self._step)
        attended = self._queries_in_place() > queries, _Calls.own > calls
        if attended != (order["way"] == "near", order["way"] == "own"):
            raise RuntimeError(f"steps attended otherwise than {order['way']}")
        return {"seconds": seconds}

    def held(self, _: dict[str, int]) -> dict[str, Any]:
        """Bytes of all requests' K and V, and of the process."""
        kv_bytes = sum(self._lengths.values()) * self._token_bytes
        return {"kv_bytes": kv_bytes, "resident_bytes": resident_bytes()}

    def used(self, _: dict[str, int]) -> dict[str, Any]:
        """Of engines with codes alone."""
        each = [builder.counts() for builder in self._builders]
        read, cached = (sum(c[name] for c in each) for name in ("read_bytes", "cached_bytes"))
        return {"read_share": read / cached}

    def answer(self, order: dict[str, int]) -> dict[str, Any]:
        """The same prompt, answered in both ways."""
        self._engine.abort_request([*self._lengths])
        self._lengths = {}
        sampling = SamplingParams(
            temperature=0, max_tokens=order["new_tokens"], ignore_eos=True, logprobs=4
        )
        prompt = {"prompt_token_ids": [*slice_of(self._text, 0, order["tokens"])]}
        answers = {}
        for way in _WAYS:
            self._take_turn(way)
            (output,) = self._llm.generate(prompt, sampling, use_tqdm=False)
            answers[way] = output.outputs[0]
        difference = 0.0
        own, near = (answers[way] for way in _WAYS)
        for token, other, *steps in zip(
            own.token_ids, near.token_ids, own.logprobs, near.logprobs, strict=True
        ):
            both = steps[0].keys() & steps[1].keys()
            away = (abs(steps[0][each].logprob - steps[1][each].logprob) for each in both)
            difference = max(difference, *away)
            if token != other:
                break
        tokens = {way: list(answers[way].token_ids) for way in _WAYS}
        return tokens | {"difference": difference}

    def read(self, _: dict[str, int]) -> dict[str, Any]:
        """How fast all threads read memory."""
        return {"gb_per_s": plain_read_gb_per_s()}

    def close(self) -> None:
        """Ends the engine."""
        self._engine.engine_core.shutdown()

    def _take_turn(self, way: str) -> None:
        for builder in self._builders:
            builder.is_in_place = way == "near"
        InPlaceImpl.forward = _no_attention if way == "none" else _attention

    def _queries_in_place(self) -> int:
        return sum(builder.attended_queries for builder in self._builders)

    def _step(self) -> None:
        for output in self._engine.step():
            if output.request_id in self._lengths:
                self._lengths[output.request_id] += 1


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(
        lambda: DecodeEngine(**made),
        {
            "fill": DecodeEngine.fill,
            "turn": DecodeEngine.turn,
            "held": DecodeEngine.held,
            "used": DecodeEngine.used,
            "answer": DecodeEngine.answer,
            "read": DecodeEngine.read,
        },
    )
