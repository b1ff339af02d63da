"""NearKV under Hugging Face transformers: old K and V in a pool, or all attended to in place.

Importing registers the attention implementation "nearkv". Any model that goes through
transformers' attention interface and keeps one K and V per layer works unchanged.

Example:
    model.set_attn_implementation("nearkv")
    cache = NearKVCache(make_pool(model.config, "cpu:", dtype=model.dtype))
    model.generate(**inputs, past_key_values=cache)
"""

from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from nearkv.far import FarAttention
from nearkv.retainer import Retention
from nearkv.transformers import compat  # noqa: F401  It refuses versions that are too old.
from nearkv.transformers.attention import nearkv_attention_forward
from nearkv.transformers.cache import NearKVCache
from nearkv.transformers.cross import NearKVCrossCache
from nearkv.transformers.far import make_pool
from nearkv.transformers.infini import NearKVInfiniCache
from nearkv.transformers.learn import learn_gains
from nearkv.transformers.prefixes import PrefixStates
from nearkv.transformers.shape import shape_of
from nearkv.transformers.sparse import NearKVSparseCache, make_sparse_latents

ATTENTION = "nearkv"
"""Name of the attention implementation."""

AttentionInterface.register(ATTENTION, nearkv_attention_forward)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)

__all__ = [
    "ATTENTION",
    "FarAttention",
    "NearKVCache",
    "NearKVCrossCache",
    "NearKVInfiniCache",
    "NearKVSparseCache",
    "PrefixStates",
    "Retention",
    "learn_gains",
    "make_pool",
    "make_sparse_latents",
    "shape_of",
]
