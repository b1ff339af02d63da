"""Models, and the runs that the demo compares: plain transformers, and NearKV in each mode."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.utils import logging

from nearkv.core import Pool
from nearkv.demo import DemoError
from nearkv.transformers import ATTENTION, NearKVCache, make_pool

KV_DTYPE = torch.bfloat16
PLAIN = "sdpa"
# What a pool needs beside its pages: lists, staging area, pages of the newest tokens.
_SPARE_BYTES = 64 << 20


@dataclass
class Run:
    """One way to decode: its tokens so far and what they cost."""

    name: str
    attention: str
    cache: Any
    logits: torch.Tensor | None = None
    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stored_tokens: list[int] = field(default_factory=list)
    """In the pool before each step."""
    bytes: Counter[str] = field(default_factory=Counter)
    tokens_at_once: int | None = None
    """Most tokens of a prompt that the attention takes."""

    @property
    def next_token(self) -> int:
        """The likeliest one; the first of several that are alike."""
        return int(self.logits.argmax())

    def read(self, model: Any, tokens: Sequence[int]) -> None:
        """Feeds tokens; `logits` are those after the last of them."""
        model.set_attn_implementation(self.attention)
        step = self.tokens_at_once or len(tokens)
        with torch.no_grad():
            for at in range(0, len(tokens), step):
                some = torch.tensor([tokens[at : at + step]])
                output = model(some, past_key_values=self.cache, logits_to_keep=1)
        self.logits = output.logits[0, -1]

    def step(self, model: Any) -> None:
        """Takes the likeliest token, reads it, and notes what that cost."""
        self.tokens.append(self.next_token)
        pool = self.cache.pool if isinstance(self.cache, NearKVCache) else None
        if pool:
            self.stored_tokens.append(sum(self.cache.layers[0].stored))
            self.bytes.subtract(_byte_counts(pool))
        start_s = time.perf_counter()
        self.read(model, self.tokens[-1:])
        self.seconds.append(time.perf_counter() - start_s)
        if pool:
            self.bytes.update(_byte_counts(pool))

    def moved_tokens(self) -> int:
        """That went to the pool while tokens were decoded."""
        return sum(self.cache.layers[0].stored) - self.stored_tokens[0]

    def stored_mean(self) -> float:
        """Tokens in the pool, on average over the steps."""
        return mean(self.stored_tokens)


class RoundedCache(DynamicCache):
    """Transformers' own cache, K and V rounded to bf16: what NearKV holds, and what it is read as.

    The numbers stay in the model's dtype. Models compute in float32 here: two exact ways to attend
    add up in another order, and of logits in bf16 two are often equal after that in one of the ways
    and not in the other, so that tokens would part by chance.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rounds new tokens and adds them."""
        rounded = (rows.to(KV_DTYPE).to(rows.dtype) for rows in (key_states, value_states))
        return super().update(*rounded, *args, **kwargs)


def load_model(source: Path | str, dtype: str) -> tuple[Any, Any]:
    """Model and tokenizer of a folder in Hugging Face layout, or by a name on the hub."""
    folder = Path(source).expanduser()
    is_folder = isinstance(source, Path) or source.startswith((".", "/", "~")) or folder.exists()
    if is_folder and not (folder / "config.json").is_file():
        raise DemoError(f"{folder} holds no model: there is no config.json in it")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    place = folder if is_folder else source
    options = {"local_files_only": is_folder}
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
        model = AutoModelForCausalLM.from_pretrained(place, dtype=getattr(torch, dtype), **options)
    except Exception as error:  # Several libraries read the folder, each with errors of its own.
        reason = " ".join(str(error).split())
        raise DemoError(f"cannot load a model from {place}: {reason}") from error
    return model.eval(), tokenizer


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """What a model ends its answer with."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = named if isinstance(named, list) else [named]
    return {end for end in (*ends, tokenizer.eos_token_id) if end is not None}


def open_cache(config: Any, device: str, tokens: int, *, codes: bool = False) -> NearKVCache:
    """A cache over a fresh pool; a URI that names no size gets what `tokens` tokens need."""
    device = with_memory(config, device, tokens)
    return NearKVCache(make_pool(config, device, dtype=KV_DTYPE, codes=codes), rounded=True)


def is_fast(device: str) -> bool:
    """Whether a device has all modes, takes many queries at once, and is no simulation."""
    return device.startswith("cpu:")


def near_run(name: str, cache: NearKVCache, device: str) -> Run:
    """A run over a cache of NearKV's, whose pool is on a device."""
    # An engine in RTL is built for the queries of one token.
    return Run(name, ATTENTION, cache, tokens_at_once=None if is_fast(device) else 1)


def token_bytes(config: Any) -> int:
    """K and V of one token in bf16, all layers."""
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return text.num_hidden_layers * heads * dim * 2 * KV_DTYPE.itemsize


def with_memory(config: Any, device: str, tokens: int) -> str:
    """A URI with the memory that a pool of so many tokens needs, if it names no size itself."""
    if "memory=" in device:
        return device
    # Raw rows of K and V, and half as much again for what else a page holds.
    need = tokens * token_bytes(config) * 3 // 2 + _SPARE_BYTES
    return f"{device}{'&' if '?' in device else '?'}memory={-(-need >> 20)}MiB"


def _byte_counts(pool: Pool) -> dict[str, int]:
    stats = pool.stats()
    link = stats.link_to_device_bytes + stats.link_from_device_bytes
    return {"link": link, "near": stats.near_bytes}
