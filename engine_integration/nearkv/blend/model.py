"""What blending asks of a transformers model: RoPE that can be taken on, layers that all attend."""

import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

# Their angles depend on a token's position alone. `dynamic` and `longrope` change with the prompt.
_FIXED_ANGLES = ("default", "linear", "llama3", "yarn")
_ATTENTION = ("sdpa", "nearkv")
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# What differs between checkpoints that compute alike.
_NOT_IDENTITY = ("_name_or_path", "transformers_version", "dtype", "use_cache", "architectures")
_SAMPLES = 4096


class UnsuitableModel(ValueError):
    """Chunks of this model cannot be put together; the text names why, and what can be done."""


class BlendModel:
    """A causal language model whose K can be moved to other positions.

    Raises UnsuitableModel for positions that are not rotary, rotations that depend on the prompt's
    length, windows, latents and states, other dtypes than float32, bfloat16 and float16, other
    attention implementations than `sdpa` and `nearkv`.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        text = model.config.get_text_config(decoder=True)
        self.name = text.model_type
        self.decoder: Any = model.get_decoder()
        self.layers: list[torch.nn.Module] = list(getattr(self.decoder, "layers", ()))
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        self.vocabulary: int = text.vocab_size
        self._rotary, self._rotate = self._rope()
        self._check_layers()
        self._check_options(text)
        self._config = text
        self.check_attention()
        self.kv_heads, self.head_dim = self._try_to_move()
        self.identity = _identity(model, text)

    @property
    def rope(self) -> str:
        """The kind of rotation, as the model's configuration names it."""
        return self._rotary.rope_type

    @torch.no_grad()
    def compute(self, tokens: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """K and V [1, heads, tokens, head_dim] of each layer, of tokens that nothing precedes."""
        cache = DynamicCache()
        self.decoder(input_ids=tokens[None], past_key_values=cache, use_cache=True)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def move(self, keys: torch.Tensor, by: int) -> torch.Tensor:
        """Keys [1, heads, tokens, head_dim] as they were `by` positions later; new memory.

        Computed in float32 by the model's own functions, and rounded once.
        """
        if by == 0:
            return keys.clone()
        place = torch.tensor([[by]], device=keys.device)
        wide = keys.float()
        cos, sin = self._rotary(wide, position_ids=place)
        # Some kinds scale what they rotate, which was done when the keys were made.
        scale = self._rotary.attention_scaling
        _, moved = self._rotate(wide, wide, cos / scale, sin / scale)
        return moved.to(keys.dtype)

    def check_attention(self) -> None:
        """Raises UnsuitableModel while the model's attention is another than those."""
        if self._config._attn_implementation not in _ATTENTION:
            raise UnsuitableModel(
                f'attention is "{self._config._attn_implementation}", which takes no rows of a '
                'mask; say model.set_attn_implementation("sdpa") first'
            )

    def _check_layers(self) -> None:
        takes = inspect.signature(self.layers[0].forward).parameters if self.layers else {}
        if not {"hidden_states", "attention_mask", "past_key_values"} <= takes.keys():
            raise UnsuitableModel(
                f"{self.name} has no decoder layers of transformers' usual form; use a model built "
                "like Llama or Qwen"
            )

    def _check_options(self, text: Any) -> None:
        kinds = {type(layer) for layer in DynamicCache(config=text).layers}
        if kinds != {DynamicLayer} or getattr(text, "kv_lora_rank", None):
            raise UnsuitableModel(
                f"{self.name} has layers with windows, latents or states; chunks are blended of "
                "models all of whose layers keep K and V of every token"
            )
        if self.dtype not in _DTYPES:
            raise UnsuitableModel(
                f"{self.name} is in {self.dtype}; load it with dtype=torch.bfloat16"
            )

    def _rope(self) -> tuple[Any, Callable[..., tuple[torch.Tensor, torch.Tensor]]]:
        rotary = getattr(self.decoder, "rotary_emb", None)
        rotate = getattr(sys.modules[type(self.decoder).__module__], "apply_rotary_pos_emb", None)
        if rotary is None or rotate is None:
            raise UnsuitableModel(
                f"{self.name} has no rotary positions (RoPE), so keys belong to the place where "
                "they were computed; reuse prefixes instead (NearKVCache, vLLM's connector)"
            )
        kind = rotary.rope_type
        if not isinstance(kind, str) or kind not in _FIXED_ANGLES:
            raise UnsuitableModel(
                f"{self.name}'s RoPE is of the kind {kind}, whose angles change with the prompt's "
                f"length or the layer; kinds that can be moved: {', '.join(_FIXED_ANGLES)}"
            )
        return rotary, rotate

    @torch.no_grad()
    def _try_to_move(self) -> tuple[int, int]:
        """Keys of the first layer, moved, beside keys computed there; their heads and channels."""
        here, there = (self._first_keys(first) for first in (0, 100))
        tolerance = 8 * torch.finfo(self.dtype).eps * there.abs().max() + 1e-4
        if (self.move(here, 100) - there).abs().max() > tolerance:
            raise UnsuitableModel(
                f"keys of {self.name}, rotated by 100 positions, are not those computed there: its "
                "positions are more than a rotation"
            )
        return there.shape[1], there.shape[3]

    def _first_keys(self, first: int) -> torch.Tensor:
        place = torch.arange(first, first + 4, device=self.device)[None]
        tokens = torch.arange(4, device=self.device)[None] % self.vocabulary
        options = {"input_ids": tokens, "position_ids": place, "use_cache": True}
        keys, _ = look_at_update(lambda cache: self.decoder(**options, past_key_values=cache))
        return keys


class _Seen(Exception):
    """K and V were computed; nothing behind them is wanted."""


class _LookingCache(DynamicCache):
    """Takes down the first K and V that a layer gives it, and ends the layer there."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes them down."""
        self.seen = key_states, value_states
        raise _Seen


def look_at_update(
    compute: Callable[[DynamicCache], object],
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V [1, heads, tokens, head_dim] that `compute` would put into its cache first.

    What it would do with them, attention, is not computed.
    """
    cache = _LookingCache()
    try:
        compute(cache)
    except _Seen:
        return cache.seen
    raise UnsuitableModel("a layer computed no K and V")


def _identity(model: PreTrainedModel, text: Any) -> str:
    """Of what the model computes: its configuration, and a sample of every weight."""
    settings = {key: value for key, value in text.to_dict().items() if key not in _NOT_IDENTITY}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, weight in model.state_dict().items():
        flat = weight.detach().flatten()
        sample = flat[:: max(1, flat.numel() // _SAMPLES)].float().cpu().numpy()
        digest.update(f"{name} {tuple(weight.shape)}".encode() + sample.tobytes())
    return f"{text.model_type}-{digest.hexdigest()[:32]}"
