"""Eviction that can be undone, on a pool: a NearKVCache with a Retention, asked for needles.

What has no room is compressed by TRANSCODE, and comes back when a query asks for it, as
nearkv.retainer has it; nothing here is emulated but the link.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from bench.kept.tasks import NeedleQuestion, Task
from nearkv.core import PAGE_TOKENS, Codec, Pool, RowForm
from nearkv.demo.runs import with_memory
from nearkv.retainer import Retention
from nearkv.transformers import ATTENTION, NearKVCache, make_pool

CODECS = (Codec.PLANES_ZSTD, Codec.INT4)
_WINDOW_TOKENS = 64


@dataclass
class Pooled:
    """Of one codec and budget, text by text."""

    recalled: list[list[bool]] = field(default_factory=list)
    page_shares: list[float] = field(default_factory=list)
    """Bytes of the pool's pages, of what they take with nothing compressed."""
    near_bytes: list[float] = field(default_factory=list)
    """Read near the data for a token of a question or an answer, by all commands of the pool."""
    link_bytes: list[float] = field(default_factory=list)


def measure_pooled(
    model: Any, task: Task, device: str, codec: Codec, budget: float, pooled: Pooled
) -> None:
    """Reads a task's prompt, cuts its cache to a share of the pool's tokens, asks for needles."""
    model.set_attn_implementation(ATTENTION)
    pool = make_pool(model.config, with_memory(model.config, device, 2 * len(task.prompt)))
    stored = len(task.prompt) - _WINDOW_TOKENS
    retention = Retention(budget_tokens=round(budget * stored), cold=codec)
    cache = NearKVCache(pool, window_tokens=_WINDOW_TOKENS, retention=retention, rounded=True)
    with cache, torch.no_grad():
        model(torch.tensor([task.prompt]), past_key_values=cache, logits_to_keep=1)
        usage = pool.usage()
        pooled.page_shares.append(usage.page_bytes / (usage.pages * _page_bytes(pool)))
        pool.reset_stats()
        pooled.recalled.append([_answers(model, cache, question) for question in task.questions])
        stats = pool.stats()
        tokens = sum(len(one.asked) + len(one.answer) - 1 for one in task.questions)
        link_bytes = stats.link_to_device_bytes + stats.link_from_device_bytes
        pooled.near_bytes.append(stats.near_bytes / tokens)
        pooled.link_bytes.append(link_bytes / tokens)


def _answers(model: Any, cache: NearKVCache, question: NeedleQuestion) -> bool:
    """Whether greedy decoding, a token at a time, gives the value."""
    before = cache.get_seq_length()
    said = []
    for feed in (question.asked, *([token] for token in question.answer[:-1])):
        logits = model(torch.tensor([feed]), past_key_values=cache, logits_to_keep=1).logits
        said.append(int(logits[0, -1].argmax()))
    cache.crop(before - cache.get_seq_length())
    return said == question.answer


def _page_bytes(pool: Pool) -> float:
    """Of a page with nothing compressed: a sequence of one page of each head, made and dropped."""
    before = pool.usage()
    keys, values = (
        torch.randn(pool.kv_heads, PAGE_TOKENS, dim).bfloat16()
        for dim in (pool.head_dim, pool.value_dim)
    )
    pool.create_sequence(1)
    for layer in range(pool.layers):
        pool.append(1, layer, keys, None if pool.v_form == RowForm.NONE else values)
    after = pool.usage()
    pool.drop(1)
    return (after.page_bytes - before.page_bytes) / (after.pages - before.pages)
