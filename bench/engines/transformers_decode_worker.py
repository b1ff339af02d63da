"""A model of transformers whose decode steps are timed, with NearKV's attention and sdpa by turns.

Runs in the project's environment. Its argument: {"model": FOLDER, "threads", "dtype"}. Orders:
`fill {"requests", "tokens", "steps", ..}` computes a prompt, gives it to so many requests with room
for so many steps in a static cache, and forgets others;
`turn {"way", "count"}` decodes so many steps with sdpa ("own"), NearKV's attention ("near") or
"none", whose tokens mean nothing, and answers {"seconds": of each step but the first};
`held {}` answers {"kv_bytes": what the attention of the last step read, "resident_bytes": of the
process};
`compare {}` takes a step in both ways, and answers {"difference": the largest of a log-probability
of the four likeliest tokens};
`read {}` answers {"gb_per_s": of a plain read of memory by all threads}.
"""

import json
import sys
from typing import Any

from bench.engines.orders import serve
from bench.engines.steps import plain_read_gb_per_s, resident_bytes, seconds_of_turn
from bench.quiet import as_a_program_of_its_own

as_a_program_of_its_own(json.loads(sys.argv[1])["threads"])

import torch  # noqa: E402
from transformers import (  # noqa: E402
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    StaticCache,
)
from transformers.masking_utils import sdpa_mask  # noqa: E402

from bench.engines.shapes import tokens_of_the_document  # noqa: E402
from nearkv.transformers import ATTENTION  # noqa: E402

_WAYS = {"own": "sdpa", "near": ATTENTION, "none": "none"}
_CHUNK_TOKENS = 512
_BLOCK_TOKENS = 64


def _no_attention(
    _: torch.nn.Module, query: torch.Tensor, *__: Any, **___: Any
) -> tuple[torch.Tensor, None]:
    """What stands in for a layer's attention, so that the rest of a step can be timed."""
    return torch.zeros_like(query).transpose(1, 2), None


AttentionInterface.register("none", _no_attention)
AttentionMaskInterface.register("none", sdpa_mask)


class TransformersModel:
    """Requests that decode together over one static cache."""

    def __init__(self, model: str, threads: int, dtype: str) -> None:
        torch.set_num_threads(threads)
        self._text = tokens_of_the_document(model)
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self._model.eval()

    def fill(self, order: dict[str, Any]) -> dict[str, Any]:
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

    def turn(self, order: dict[str, Any]) -> dict[str, Any]:
        """Seconds of steps that attend in one of the ways."""
        self._take_turn(order["way"])
        return {"seconds": seconds_of_turn(order["count"], lambda: self._step(self._next))}

    def held(self, _: dict[str, int]) -> dict[str, Any]:
        """Bytes of all requests' K and V, and of the process."""
        layer = self._cache.layers[0]
        seen = int(self._cache.get_seq_length())
        row = layer.keys.shape[0] * layer.keys.shape[1] * layer.keys.shape[3]
        kv_bytes = 2 * len(self._cache.layers) * seen * row * layer.keys.element_size()
        return {"kv_bytes": kv_bytes, "resident_bytes": resident_bytes()}

    def compare(self, _: dict[str, int]) -> dict[str, Any]:
        """The next step, taken in both ways."""
        tokens, answers = self._next, []
        for way in ("own", "near"):
            self._take_turn(way)
            answers.append(self._step(tokens))
            for layer in self._cache.layers:  # The next one takes the same place.
                layer.cumulative_length -= 1
        best = answers[0].topk(4).indices
        return {"difference": float((answers[0] - answers[1]).gather(1, best).abs().max())}

    def read(self, _: dict[str, int]) -> dict[str, Any]:
        """How fast all threads read memory."""
        return {"gb_per_s": plain_read_gb_per_s()}

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


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(
        lambda: TransformersModel(**made),
        {
            "fill": TransformersModel.fill,
            "turn": TransformersModel.turn,
            "held": TransformersModel.held,
            "compare": TransformersModel.compare,
            "read": TransformersModel.read,
        },
    )
