"""A vLLM engine that answers prompts on orders from standard input; runs in vLLM's environment.

Its argument: {"model": FOLDER, "max_tokens": longest prompt, "options": of the engine}. Orders:
`ask [TOKEN, ...]` answers {"seconds": to the first token, "cached": tokens that were not computed,
"token": the first one, "computed_s", "answered_s": when NearKVConnector saw the last layer end and
when the token was there, by the clock that all processes share}; `forget` makes the engine itself
remember nothing of prompts before, when what is offloaded is stored.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

from vllm import LLM, SamplingParams

from bench.engines.orders import serve

_FIRST_TOKEN = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)


class SingleRequestEngine:
    """One engine, one request at a time."""

    def __init__(self, model: str, max_tokens: int, options: dict[str, Any]) -> None:
        self._computed_s = 0.0
        self._note_when_computed(options)
        self._engine = LLM(
            model=model,
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=max_tokens,
            max_num_batched_tokens=2048,
            block_size=64,
            max_num_seqs=4,
            seed=0,
            **options,
        )

    def ask(self, tokens: Sequence[int]) -> dict[str, Any]:
        """Time to the first token."""
        began_s = time.monotonic()
        output = self._generate(tokens)
        answered_s = time.monotonic()
        return {
            "seconds": answered_s - began_s,
            "cached": output.num_cached_tokens,
            "token": output.outputs[0].token_ids[0],
            "computed_s": self._computed_s,
            "answered_s": answered_s,
        }

    def forget(self) -> dict[str, Any]:
        """Stores end, and the engine's own cache is emptied."""
        # What is offloaded is handed on by later steps.
        self._generate([5, 6, 7])
        assert self._engine.reset_prefix_cache()
        return {}

    def close(self) -> None:
        """Ends the engine."""
        self._engine.llm_engine.engine_core.shutdown()

    def _note_when_computed(self, options: dict[str, Any]) -> None:
        """vLLM asks its connector to save what is left when a step's last layer has been called."""
        if options.get("kv_transfer_config", {}).get("kv_connector") != "NearKVConnector":
            return
        from nearkv.vllm import NearKVConnector

        save = NearKVConnector.wait_for_save

        def saved(connector: Any) -> None:
            self._computed_s = time.monotonic()
            save(connector)

        NearKVConnector.wait_for_save = saved

    def _generate(self, tokens: Sequence[int]) -> Any:
        asked = {"prompt_token_ids": list(tokens)}
        return self._engine.generate(asked, _FIRST_TOKEN, use_tqdm=False)[0]


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(
        lambda: SingleRequestEngine(**made),
        {"ask": SingleRequestEngine.ask, "forget": SingleRequestEngine.forget},
    )
