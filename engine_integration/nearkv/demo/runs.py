"""The runs that the demo compares: plain transformers, and NearKV in each mode."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.utils import logging

from nearkv.core import AttendMode, Pool
from nearkv.demo import DemoError
from nearkv.transformers import ATTENTION, FarAttention, NearKVCache, make_pool

KV_DTYPE = torch.bfloat16
STAGES = ("stream", "refine", "exact", "value")
# What a pool needs beside its pages: lists, staging area, pages of the newest tokens.
_SPARE_BYTES = 64 << 20


@dataclass
class Run:
    """One way to decode: its tokens so far and what they cost."""

    name: str
    attention: str
    cache: Any
    logits: torch.Tensor
    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stored_tokens: list[int] = field(default_factory=list)  # Before each step, and at the end.
    bytes: Counter[str] = field(default_factory=Counter)

    def per_token(self, *stages: str) -> float:
        """Mean bytes that some stages read near the data for a decoded token."""
        return sum(self.bytes[stage] for stage in stages) / len(self.seconds)


@dataclass(frozen=True)
class Comparison:
    """Everything measured.

    `kv_token_bytes` is what one token's K and V take in bf16, `move_token_bytes` what crossed the
    link for each token that moved to the pool.
    """

    plain: Run
    near: Sequence[Run]
    moved_tokens: int
    page_bytes: int
    kv_token_bytes: int
    move_token_bytes: float

    def link_bytes_per_token(self, run: Run) -> float:
        """Bytes over the link, both directions, for a token decoded by a near run.

        Whole pages move, so a short run may see many tokens move or none. In the long run one moves
        for each that is decoded, and that is what counts here.
        """
        steps, stored = len(run.seconds), run.stored_tokens
        moved = (stored[-1] - stored[0]) * self.move_token_bytes
        return (run.bytes["link"] - moved) / steps + self.move_token_bytes

    def full_scan_bytes(self, run: Run) -> float:
        """bf16 bytes of the K and V in the pool, on average over the tokens decoded by a near run.

        It is what a scan of everything reads, and what crosses the link if the host attends.
        """
        return mean(run.stored_tokens[:-1]) * self.kv_token_bytes

    @property
    def compression_ratio(self) -> float:
        """bf16 bytes of what was moved to the pool, over the bytes of its pages there."""
        return self.moved_tokens * self.kv_token_bytes / self.page_bytes


class RoundedCache(DynamicCache):
    """Transformers' own cache, K and V rounded to bf16: what NearKV holds, and what it is read as.

    The numbers stay in the model's dtype, so that the plain run need not widen them in each step.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rounds new tokens and adds them."""
        rounded = (rows.to(KV_DTYPE).to(rows.dtype) for rows in (key_states, value_states))
        return super().update(*rounded, *args, **kwargs)


def load_model(folder: Path, dtype: str) -> tuple[Any, Any]:
    """Model and tokenizer of a folder in Hugging Face layout, from nowhere else."""
    if not (folder / "config.json").is_file():
        raise DemoError(f"{folder} holds no model: there is no config.json in it")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype), local_files_only=True
        )
    except Exception as error:  # Several libraries read the folder, each with errors of its own.
        raise DemoError(f"cannot load a model from {folder}: {error}") from error
    return model.eval(), tokenizer


def read_prompt(model: Any, tokens: Sequence[int]) -> tuple[DynamicCache, torch.Tensor]:
    """K and V of a prompt, and the logits after it."""
    model.set_attn_implementation("sdpa")
    cache = RoundedCache()  # Without the config it keeps all tokens of windowed layers too.
    with torch.no_grad():
        result = model(torch.tensor([tokens]), past_key_values=cache, logits_to_keep=1)
    return cache, result.logits[0, -1]


def open_cache(config: Any, device: str, tokens: int) -> NearKVCache:
    """A cache over a fresh pool; a URI that names no size gets what `tokens` tokens need."""
    device = with_memory(config, device, tokens)
    return NearKVCache(make_pool(config, device, dtype=KV_DTYPE), rounded=True)


def with_memory(config: Any, device: str, tokens: int) -> str:
    """A URI with the memory that a pool of so many tokens needs, if it names no size itself."""
    if "memory=" in device:
        return device
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    # Raw rows of K and V, and half as much again for what else a page holds.
    need = tokens * text.num_hidden_layers * heads * dim * 2 * 2 * 3 // 2 + _SPARE_BYTES
    return f"{device}{'&' if '?' in device else '?'}memory={-(-need >> 20)}MiB"


def compare(
    model: Any,
    prompt: Sequence[int],
    device: str,
    modes: Sequence[FarAttention],
    steps: int,
    say: Callable[[str], Any],
) -> Comparison:
    """Reads the prompt once, gives its K and V to every run, and decodes in turns.

    Turns, so that a drift of the machine falls on all runs alike. DemoError for a prompt too short
    to move a page.
    """
    base = open_cache(model.config, device, len(prompt) + steps)
    with say(f"reading {len(prompt):,} tokens of prompt"):
        plain_cache, logits = read_prompt(model, prompt)
    with say("moving K and V to the pool"):
        base.take(plain_cache)
    pool, moved = base.pool, sum(base.layers[0].stored)
    if moved == 0:
        raise DemoError(
            f"the prompt has {len(prompt)} tokens, and none is old enough to leave the host; give "
            "a longer document"
        )
    page_bytes = pool.usage().page_bytes
    move_bytes = _byte_counts(pool)["link"] / moved
    keys_and_values = [t for layer in plain_cache.layers for t in (layer.keys, layer.values)]
    kv_bytes = sum(t.numel() for t in keys_and_values) * KV_DTYPE.itemsize // len(prompt)
    plain = Run("plain", "sdpa", plain_cache, logits)
    near = [Run(far.mode.name.lower(), ATTENTION, base.fork(far), logits) for far in modes]
    names = ", ".join(run.name for run in (plain, *near))
    with say(f"decoding {steps} tokens by turns: {names}") as work:
        for step in range(steps):
            work.detail = f"token {step + 1} of {steps}"
            for run in (plain, *near):
                _decode(model, run)
    for run in near:
        run.stored_tokens.append(sum(run.cache.layers[0].stored))
        run.cache.close()
    base.close()
    return Comparison(plain, near, moved, page_bytes, kv_bytes, move_bytes)


def make_modes(first: AttendMode, others: bool, top_k: int, error: float) -> list[FarAttention]:
    """The mode asked for, and the others after it where wanted."""
    modes = [first, *(mode for mode in AttendMode if others and mode is not first)]
    return [FarAttention(mode=mode, top_k=top_k, error=error) for mode in modes]


def _decode(model: Any, run: Run) -> None:
    """One step of a run: the likeliest token, and the logits after it."""
    pool = run.cache.pool if isinstance(run.cache, NearKVCache) else None
    if pool:
        run.stored_tokens.append(sum(run.cache.layers[0].stored))
        run.bytes.subtract(_byte_counts(pool))
    run.tokens.append(int(run.logits.argmax()))
    model.set_attn_implementation(run.attention)
    start_s = time.perf_counter()
    with torch.no_grad():
        result = model(torch.tensor([run.tokens[-1:]]), past_key_values=run.cache)
    run.seconds.append(time.perf_counter() - start_s)
    run.logits = result.logits[0, -1]
    if pool:
        run.bytes.update(_byte_counts(pool))


def _byte_counts(pool: Pool) -> dict[str, int]:
    stats = pool.stats()
    link = stats.link_to_device_bytes + stats.link_from_device_bytes
    return {"link": link} | {stage: getattr(stats, f"{stage}_bytes") for stage in STAGES}
