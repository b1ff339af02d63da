"""What a model predicts when the attention of a text's last tokens is replaced.

The text is read as it is but for its last tokens. These go through the model in one pass for each
way to attend, with the right tokens as input, so that keys and values of these tokens follow from
the way in each layer. These passes are in float32, so that roundings stay small beside what is
measured. Only layers that attend to all tokens are replaced.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from bench.real.answers import coded_pool, dense_bytes
from bench.real.caches import CACHES
from bench.real.captures import CaptureSource
from bench.real.reading import global_layers
from bench.real.tasks import Task
from bench.real.texts import Text
from nearkv.core import AttendMode

REFERENCE = "bf16"
_ATTENTION = "bench_predicting"


class Replacement(Protocol):
    """Attention of new tokens' queries [query_heads, new, dim] to all keys [kv_heads, tokens, dim].

    The first new token sees all tokens but the other new ones, and so on. Gives [new, query_heads,
    dim].
    """

    def __call__(
        self,
        layer: int,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        scale: float,
    ) -> torch.Tensor: ...

    def take_shares(self) -> list[float]:
        """The bytes read of K and V in bf16, by calls since it was asked last."""
        ...


@dataclass
class Predicted:
    """What one way's predictions came to, over texts: a number for each predicted token."""

    divergences: list[float] = field(default_factory=list)
    """From REFERENCE's, in nats."""
    losses: list[float] = field(default_factory=list)
    """Of the right token, in nats."""
    agreed: list[bool] = field(default_factory=list)
    """Whether the likeliest token is REFERENCE's."""
    bytes: list[float] = field(default_factory=list)
    """Of K and V in bf16, what each layer of each text read."""
    answers: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    """Of tasks, by their kind: whether each was answered rightly."""


class Kept:
    """Exact attention over K and V as a cache of CACHES keeps them, or in bf16."""

    def __init__(self, name: str) -> None:
        self._cache = CACHES.get(name)
        self._share = 1.0

    def __call__(self, layer, queries, keys, values, scale):
        """As Replacement says."""
        kept = keys.bfloat16(), values.bfloat16()
        if self._cache:
            self._share = self._cache.share(keys.shape[-1])
            kept = self._cache.keep(*kept)
        new, tokens = queries.shape[1], keys.shape[1]
        seen = torch.ones(new, tokens, dtype=torch.bool).tril(tokens - new)
        output = torch.nn.functional.scaled_dot_product_attention(
            queries[None],
            *(rows[None].float() for rows in kept),
            seen,
            scale=scale,
            enable_gqa=True,
        )
        return output[0].transpose(0, 1)

    def take_shares(self) -> list[float]:
        """As Replacement says."""
        return [self._share]


class Coded:
    """Attention by codes on a device."""

    def __init__(self, uri: str, gains: dict[int, torch.Tensor], mode: AttendMode, **how: float):
        self._uri = uri
        self._gains = gains
        self._how = {"mode": mode} | how
        self._shares: list[float] = []

    def __call__(self, layer, queries, keys, values, scale):
        """As Replacement says."""
        keys, values = keys.bfloat16(), values.bfloat16()
        pool = coded_pool(self._uri, keys, values, self._gains[layer])
        grouped = queries.bfloat16().unflatten(0, (keys.shape[0], -1))
        new, tokens = queries.shape[1], keys.shape[1]
        outputs, whole = [], 0
        for index in range(new):
            seen = tokens - new + index + 1
            rows = grouped[:, :, index].contiguous()
            output, _ = pool.attend(1, 0, rows, scale=scale, tokens=seen, **self._how)
            outputs.append(torch.from_numpy(output).flatten(0, 1))
            whole += dense_bytes(keys, values, seen)
        self._shares.append(pool.stats().near_bytes / whole)
        return torch.stack(outputs).to(queries.dtype)

    def take_shares(self) -> list[float]:
        """As Replacement says."""
        shares, self._shares = self._shares, []
        return shares


class Predictions:
    """Predictions of the last `tokens` tokens of texts, by each of some ways to attend.

    `ways` must have REFERENCE. Not thread-safe: one text at a time.
    """

    def __init__(self, source: CaptureSource, tokens: int, ways: dict[str, Any]) -> None:
        self._source = source
        self._tokens = tokens
        self._ways = ways
        self._way: Replacement = ways[REFERENCE]
        self.predicted = {name: Predicted() for name in ways}
        AttentionInterface.register(_ATTENTION, self._attend)
        AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
        self._model = deepcopy(source.model).float()
        self._model.set_attn_implementation(_ATTENTION)
        self._replaced = frozenset(global_layers(self._model.config))

    def predict(self, text: Text, progress: Callable[[str], None]) -> None:
        """Adds a text's; TextMissing where this machine lacks it."""
        reference = None
        for name, told, last in self._told(self._source.tokens_of(text), self._tokens, progress):
            reference = told if reference is None else reference
            predicted = self.predicted[name]
            predicted.divergences += (reference.exp() * (reference - told)).sum(-1).tolist()
            predicted.losses += (-told[:-1].gather(1, last[1:, None])[:, 0]).tolist()
            predicted.agreed += (told.argmax(-1) == reference.argmax(-1)).tolist()
            predicted.bytes += self._ways[name].take_shares()

    def ask(self, task: Task, count: int, progress: Callable[[str], None]) -> None:
        """Adds the answers to a task of `count` tokens; TextMissing as above."""
        tokens, answered = task.tokens(self._source.tokenizer, count)
        for name, told, last in self._told(tokens, answered + 1, progress):
            is_right = bool((told[:-1].argmax(-1) == last[1:]).all())
            self.predicted[name].answers[task.kind].append(is_right)
            self._ways[name].take_shares()

    def _told(
        self, tokens: torch.Tensor, replaced: int, progress: Callable[[str], None]
    ) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """By each way, REFERENCE first: log-probabilities behind the last `replaced` tokens.

        With the way's name before them, and with these tokens behind.
        """
        read = self._source.reading_of(tokens[:-replaced]).cache
        for layer in read.layers:
            layer.keys, layer.values = layer.keys.float(), layer.values.float()
        last = tokens[-replaced:]
        for name in [REFERENCE, *(name for name in self._ways if name != REFERENCE)]:
            progress(f"predictions by {name}")
            self._way = self._ways[name]
            with torch.inference_mode():
                cache = deepcopy(read)
                logits = self._model(last[None], past_key_values=cache).logits[0].double()
            yield name, logits.log_softmax(-1), last

    def _attend(self, module, query, key, value, attention_mask, **options):
        layer = module.layer_idx
        if layer not in self._replaced:
            return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        scale = float(options.get("scaling") or query.shape[-1] ** -0.5)
        return self._way(layer, query[0], key[0], value[0], scale)[None], None
