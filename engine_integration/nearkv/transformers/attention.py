"""The attention implementation "nearkv": over a pool and what is here, or in place."""

from functools import partial
from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from nearkv.transformers.handover import take_next
from nearkv.transformers.in_place import attend_in_place
from nearkv.transformers.infini import NearKVInfiniLayer
from nearkv.transformers.layer import NearKVLayer
from nearkv.transformers.over import attend_over
from nearkv.transformers.sparse_layer import NearKVSparseLayer, only_picked

_UNSUPPORTED = ("s_aux", "position_bias")


def nearkv_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over a NearKVCache, as transformers' attention interface wants it.

    query [batch, heads, queries, head_dim]; key and value are what the cache holds here, or all
    tokens when no NearKVCache is in use. Then a step of one token attends to them in place, where
    they lie as the kernels read them, and anything else is plain `sdpa`; of DSA models only over
    `indices` [batch, queries, k], what an indexer picked. The result is [batch, queries, heads,
    head_dim].
    """
    layer = take_next(key)
    if layer is None:
        indices = kwargs.pop("indices", None)
        is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
        is_plain = is_traced or kwargs.get("dropout") or _unsupported(kwargs)
        if indices is None and not is_plain:
            rows = query, key, value, attention_mask
            output = attend_in_place(module, *rows, scaling=scaling, softcap=softcap)
            if output is not None:
                return output, None
        if softcap is not None:
            kwargs["softcap"] = softcap
        if indices is not None:
            attention_mask = only_picked(attention_mask, indices)
        plain = sdpa_attention_forward
        return plain(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    if unsupported := _unsupported(kwargs):
        raise ValueError(f"NearKV's attention has no {' and '.join(unsupported)}")
    if query.requires_grad:
        raise RuntimeError("NearKV attends without gradients: call under torch.no_grad()")
    options = {"scaling": scaling, "softcap": softcap, **kwargs}
    if isinstance(layer, NearKVLayer):
        layer.note_query(module, query, scaling)
    alone = isinstance(layer, NearKVInfiniLayer | NearKVSparseLayer)
    attend = layer.attend if alone else partial(attend_over, layer)
    return attend(module, query, key, value, attention_mask, **options), None


def _unsupported(options: dict[str, Any]) -> list[str]:
    return [name for name in _UNSUPPORTED if _matters(name, options.get(name))]


def _matters(name: str, option: torch.Tensor | None) -> bool:
    # T5's cross-attention has a bias of zeros.
    return option is not None and (name != "position_bias" or bool(option.any()))
