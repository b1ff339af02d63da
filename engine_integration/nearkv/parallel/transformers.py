"""Hugging Face transformers over several ranks: each computes its share of a prompt's tokens.

with Links() as links, spread(model, TokenRing(links)) as cache:   # the same on every rank
    model.generate(**inputs, past_key_values=cache)
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin

from nearkv.parallel.hybrid import Hybrid
from nearkv.parallel.ring import Ring
from nearkv.parallel.shard import Scores, Shard
from nearkv.parallel.sharding import Sharding
from nearkv.parallel.token_ring import TokenRing
from nearkv.parallel.ulysses import Ulysses

ATTENTION = "nearkv_parallel"
"""Name of the attention implementation. It has no mask: positions say what is seen."""

_PER_TOKEN = ("token_type_ids", "mm_token_type_ids", "labels")
_UNSUPPORTED = ("s_aux", "position_bias")
_running = threading.local()

Algorithm = Ring | TokenRing | Ulysses | Hybrid
Split = Callable[[int, int, int], Sharding]
"""Makes a Sharding of (tokens, ranks, first), such as Sharding.zigzag."""


class SpreadLayer(CacheLayerMixin):
    """One layer's K and V, as far as they are this rank's."""

    def __init__(self, cache: "SpreadCache", index: int) -> None:
        super().__init__()
        self.kept: Any = None
        self._cache, self._index = cache, index

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing is to be known before the first tokens."""
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Places this rank's new tokens; attention goes to `kept`, not to what this gives."""
        own = self._cache.own()
        rows = key_states[:, :, :own], value_states[:, :, :own]
        later = self._cache.algorithm.place(*rows, self._cache.step.tokens)
        if self.kept is None:
            self.kept = self._cache.keeper(later, self._index)
        else:
            self.kept.append(later)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """No mask is made."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """Tokens of all ranks."""
        return self._cache.tokens

    def get_max_length(self) -> int:
        """No maximum."""
        return -1

    def reset(self) -> None:
        """Forgets all tokens."""
        self.kept = None


@dataclass(frozen=True)
class _Step:
    """A forward call: which tokens it has, and of which of them logits are wanted."""

    tokens: Sharding
    wanted: Sharding


class SpreadCache(Cache):
    """K and V of one batch on all ranks; spread() makes it. With a pool, this rank's lie in it."""

    def __init__(self, config: Any, algorithm: Algorithm, split: Split, pool: Any = None) -> None:
        text = config.get_text_config(decoder=True)
        super().__init__([SpreadLayer(self, index) for index in range(text.num_hidden_layers)])
        self.algorithm, self.tokens = algorithm, 0
        self.step: _Step
        self._split = split
        self._counts = [0] * algorithm.links.size
        self._sequences: Any = None
        if pool is not None:
            from nearkv.transformers.far import Sequences

            self._sequences = Sequences(pool)

    def begin(self, count: int, wanted: int) -> _Step:
        """A step of `count` tokens: spread, but a single one goes to the rank that has fewest."""
        ranks = self.algorithm.links.size
        if count == 1:
            owner = self._counts.index(min(self._counts))
            tokens = Sharding.at(owner, ranks, self.tokens)
        else:
            tokens = self._split(count, ranks, self.tokens)
        last = self.tokens + count - wanted
        self.step = _Step(tokens, Sharding(tuple(p[p >= last] for p in tokens.positions)))
        return self.step

    def own(self) -> int:
        """The step's tokens of this rank. One without any computes a token that nobody wants."""
        return self.step.tokens.counts[self.algorithm.links.rank]

    def end(self) -> None:
        """The step's tokens are in all layers."""
        counts = self.step.tokens.counts
        self._counts = [before + new for before, new in zip(self._counts, counts, strict=True)]
        self.tokens += sum(counts)

    def keeper(self, first: Shard, index: int) -> Any:
        """What keeps a layer's K and V from its first tokens on."""
        if self._sequences is None:
            return first
        from nearkv.parallel.device_shard import DeviceShard

        if not self._sequences.ids:
            self._sequences.create(first.key.shape[0])
        ids, pool = self._sequences.ids, self._sequences.pool
        kept = DeviceShard(pool, ids, index, first.sharding.ranks, first.rank)
        kept.append(first)
        return kept

    def reset(self) -> None:
        """Forgets all tokens, on this rank: call it on all of them."""
        for layer in self.layers:
            layer.reset()
        self.tokens, self._counts = 0, [0] * len(self._counts)
        if self._sequences is not None:
            self._sequences.drop()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """No beams."""
        raise ValueError("a cache that is spread over ranks has no beams: num_beams=1")


@contextmanager
def spread(
    model: torch.nn.Module,
    algorithm: Algorithm,
    *,
    split: Split = Sharding.zigzag,
    pool: Any = None,
) -> Iterator[SpreadCache]:
    """Lets a causal model's forward calls share their tokens between ranks.

    All ranks hold the model and make the same calls with the same inputs, all of them named; each
    computes its own tokens, and all get the same logits. `pool`, made by make_pool, keeps this
    rank's K and V near the data, for a TokenRing. Raises ValueError for what is not supported:
    padding, gradients, beams, latents (MLA), masks of other kinds; RankFailed as Links.
    """
    text = model.config.get_text_config(decoder=True)
    if getattr(text, "kv_lora_rank", None):
        raise ValueError(f"{text.model_type} caches latents, which are not spread over ranks")
    if pool is not None and not isinstance(algorithm, TokenRing):
        raise ValueError("K and V stay in a pool only under a TokenRing")
    cache = SpreadCache(model.config, algorithm, split, pool)
    before = model.config._attn_implementation
    with ExitStack() as stack:
        stack.callback(cache.reset)
        stack.callback(model.set_attn_implementation, before)
        model.set_attn_implementation(ATTENTION)
        for hook in (
            model.register_forward_pre_hook(_take_share, with_kwargs=True),
            model.register_forward_hook(_give_logits, with_kwargs=True),
        ):
            stack.callback(hook.remove)
        yield cache


def spread_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of this rank's queries [batch, heads, queries, head_dim] over all ranks' tokens.

    The result is [batch, queries, heads, head_dim], as transformers' attention interface wants it.
    """
    cache = getattr(_running, "cache", None)
    if cache is None:
        raise RuntimeError(f'attention "{ATTENTION}" works within nearkv.parallel.spread()')
    if unsupported := [name for name in _UNSUPPORTED if kwargs.get(name) is not None]:
        raise ValueError(f"attention over ranks has no {' and '.join(unsupported)}")
    if query.requires_grad:
        raise RuntimeError("ranks attend without gradients: call under torch.no_grad()")
    scores = Scores(
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=sliding_window or 0,
        soft_cap=softcap or 0.0,
    )
    kept = cache.layers[module.layer_idx].kept
    own = cache.own()
    output = cache.algorithm.attend(query[:, :, :own], kept, cache.step.tokens, scores)
    # Models cannot reshape what has no tokens.
    output = torch.nn.functional.pad(output, (0, 0, 0, query.shape[2] - own))
    return output.transpose(1, 2).contiguous(), None


def _take_share(
    model: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Before a forward call: this rank's tokens of its inputs."""
    cache = named.get("past_key_values")
    if arguments or not isinstance(cache, SpreadCache):
        raise ValueError("name all inputs, with past_key_values=the cache that spread() gave")
    if others := [name for name in _PER_TOKEN if named.get(name) is not None]:
        raise ValueError(f"tokens are spread over ranks without {' and '.join(others)}")
    mask = named.get("attention_mask")
    if mask is not None and not (mask.dim() == 2 and mask.all()):
        raise ValueError("tokens are spread over ranks without padding, or masks but causal ones")
    name = "input_ids" if named.get("input_ids") is not None else "inputs_embeds"
    count = named[name].shape[1]
    asked = named.get("logits_to_keep") or count
    step = cache.begin(count, min(asked, count))
    rank, first = cache.algorithm.links.rank, cache.tokens
    device = named[name].device
    own, wanted = step.tokens.positions[rank], step.wanted.positions[rank]
    computed = own if len(own) else torch.tensor([first])
    named[name] = named[name].index_select(1, (computed - first).to(device))
    named["position_ids"] = computed[None].to(device)
    named["logits_to_keep"] = torch.searchsorted(own, wanted).to(device)
    named["attention_mask"] = None
    _running.cache = cache
    return arguments, named


def _give_logits(
    model: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: Any
) -> Any:
    """After a forward call: the logits that were asked for, of all ranks, on all ranks."""
    cache, _running.cache = _running.cache, None
    wanted = cache.step.wanted
    parts = cache.algorithm.links.gather(output.logits, wanted.counts, 1)
    output.logits = wanted.join(parts, 1)
    cache.end()
    return output


AttentionInterface.register(ATTENTION, spread_attention_forward)
