"""Keys, values and queries of the shipped model while it reads the shipped document."""

from functools import cache
from pathlib import Path

import torch
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from bench.data import KvSet

_MODELS = Path(__file__).resolve().parents[2] / "engine_integration" / "models"
_MODEL = _MODELS / "recall_3m"
_DOCUMENT = _MODELS / "documents" / "postgresql-high-availability.txt"


@cache
def captured(tokens: int = 8192, groups: int = 64) -> tuple[KvSet, ...]:
    """One set per layer and KV head, from the first `tokens` tokens of the document.

    Queries are those of `groups` positions evenly spread over the second half.
    """
    queries: list[torch.Tensor] = []

    def attend(module, query, key, value, attention_mask, **options):
        queries.append(query[0])
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)

    AttentionInterface.register("bench_capture", attend)
    model = AutoModelForCausalLM.from_pretrained(
        _MODEL, dtype=torch.bfloat16, attn_implementation="bench_capture"
    )
    kv = DynamicCache()
    with torch.inference_mode():
        model(_first_tokens(tokens), past_key_values=kv, logits_to_keep=1)
    positions = torch.linspace(tokens // 2, tokens - 1, groups).long().unique()
    sets = []
    for layer, (cached, query) in enumerate(zip(kv.layers, queries, strict=True)):
        heads = cached.keys.shape[1]
        grouped = query[:, positions].unflatten(0, (heads, -1)).transpose(1, 2)
        sets += [
            KvSet(
                f"document_{tokens}/layer{layer}_head{head}",
                cached.keys[0, head].contiguous(),
                cached.values[0, head].contiguous(),
                grouped[head].contiguous(),
            )
            for head in range(heads)
        ]
    return tuple(sets)


def _first_tokens(tokens: int) -> torch.Tensor:
    written = _DOCUMENT.read_text(encoding="utf-8")
    ids = AutoTokenizer.from_pretrained(_MODEL)(written, return_tensors="pt").input_ids
    if ids.shape[1] < tokens:
        raise ValueError(f"the document has {ids.shape[1]} tokens, not {tokens}")
    return ids[:, :tokens]
