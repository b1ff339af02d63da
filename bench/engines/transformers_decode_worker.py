"""A model of transformers whose decode steps are timed, with NearKV's attention and sdpa by turns.

Runs in the project's environment. Its argument: {"model": FOLDER, "threads", "dtype"}. Orders:
`fill {"requests", "tokens", "steps"}` computes a prompt, gives it to so many requests with room for
so many steps in a static cache, and forgets others;
`steps {"count", "turns"}` decodes in turns of so many steps, whose first is not kept, and answers
{"own": seconds of a step, .., "near": .., "kv_bytes": what the attention of the last one read};
`compare {}` takes a step in both ways, and answers {"difference": the largest of a log-probability
of the four likeliest tokens}.
"""

import json
import os
import sys
import time
from typing import Any

from bench.engines.orders import serve
from bench.quiet import QUIET

for name in QUIET:  # One model, and its own threads: as transformers runs.
    os.environ.pop(name, None)
os.environ["OMP_NUM_THREADS"] = str(json.loads(sys.argv[1])["threads"])

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, StaticCache  # noqa: E402

from bench.engines.shapes import tokens_of_the_document  # noqa: E402
from nearkv.transformers import ATTENTION  # noqa: E402

_WAYS = {"own": "sdpa", "near": ATTENTION}
_CHUNK_TOKENS = 512
_BLOCK_TOKENS = 64


class TransformersModel:
    """Requests that decode together over one static cache."""

    def __init__(self, model: str, threads: int, dtype: str) -> None:
        torch.set_num_threads(threads)
        self._text = tokens_of_the_document(model)
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self._model.eval()

    def fill(self, order: dict[str, int]) -> dict[str, Any]:
        """Computes a prompt for all requests."""
        requests, tokens = order["requests"], order["tokens"]
        room = tokens + order["steps"] + 1
        room += -room % _BLOCK_TOKENS
        self._cache = StaticCache(config=self._model.config, max_cache_len=room)
        prompt = torch.tensor([[self._text[i % len(self._text)] for i in range(tokens)]])
        self._take_turn("own")
        for chunk in prompt.split(_CHUNK_TOKENS, dim=1):
            self._step(chunk)
        for layer in self._cache.layers:
            layer.keys = layer.keys.repeat(requests, 1, 1, 1)
            layer.values = layer.values.repeat(requests, 1, 1, 1)
            layer.max_batch_size = requests
        self._next = self._next.repeat(requests, 1)
        return {}

    def steps(self, order: dict[str, int]) -> dict[str, Any]:
        """Seconds of steps by the way in which they attended."""
        seconds: dict[str, list[float]] = {way: [] for way in _WAYS}
        for turn in range(order["turns"]):
            for way in _WAYS if turn % 2 == 0 else reversed(_WAYS):
                self._take_turn(way)
                for number in range(order["count"]):
                    began_s = time.perf_counter()
                    self._step(self._next)
                    if number:
                        seconds[way].append(time.perf_counter() - began_s)
        return seconds | {"kv_bytes": self._kv_bytes()}

    def compare(self, _: dict[str, int]) -> dict[str, Any]:
        """The next step, taken in both ways."""
        tokens, answers = self._next, []
        for way in _WAYS:
            self._take_turn(way)
            answers.append(self._step(tokens))
            for layer in self._cache.layers:  # The next one takes the same place.
                layer.cumulative_length -= 1
        best = answers[0].topk(4).indices
        return {"difference": float((answers[0] - answers[1]).gather(1, best).abs().max())}

    def close(self) -> None:
        """Nothing is left behind."""

    def _take_turn(self, way: str) -> None:
        self._model.set_attn_implementation(_WAYS[way])

    def _step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Takes tokens, and chooses the next ones; gives their log-probabilities."""
        with torch.inference_mode():
            output = self._model(tokens, past_key_values=self._cache, logits_to_keep=1)
            self._next = output.logits[:, -1].argmax(-1, keepdim=True)
            return output.logits[:, -1].float().log_softmax(-1)

    def _kv_bytes(self) -> int:
        layer = self._cache.layers[0]
        seen = int(self._cache.get_seq_length())
        row = layer.keys.shape[0] * layer.keys.shape[1] * layer.keys.shape[3]
        return 2 * len(self._cache.layers) * seen * row * layer.keys.element_size()


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(
        lambda: TransformersModel(**made),
        {
            "fill": TransformersModel.fill,
            "steps": TransformersModel.steps,
            "compare": TransformersModel.compare,
        },
    )
