"""Keys, values and queries of real models on real texts, captured once and kept on disk.

They lie in $XDG_CACHE_HOME/nearkv/captures (or ~/.cache), a file of safetensors for each model,
length and text, named by what they were made from. A file is whole or not there.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer

from bench.real.reading import Reading, global_layers
from bench.real.texts import CALIBRATION, Text
from nearkv.calibration import gains_from
from nearkv.demo.runs import load_model
from nearkv.real_models import models_folder

_FORMAT = "2"
_SPREAD_TOKENS = 1024
"""Queries of a length are of tokens so near below it, evenly spread."""


@dataclass(frozen=True)
class Subject:
    """A model at a length: `lengths` have `positions` queries each, the last one all of the text.

    Of its layers with attention to all tokens, `layers` evenly spread ones are captured.
    """

    model: str
    lengths: tuple[int, ...]
    positions: int
    layers: int = 10

    @property
    def tokens(self) -> int:
        """Tokens of a text."""
        return self.lengths[-1]

    @property
    def name(self) -> str:
        """The model and the length, as results are named."""
        return f"{self.model}_{self.tokens // 1024}k"

    def positions_of(self, length: int) -> list[int]:
        """Of the tokens whose queries are captured at a length."""
        spread = min(_SPREAD_TOKENS, length // 4)
        return torch.linspace(length - spread, length - 1, self.positions).long().tolist()


SMOLLM2 = Subject("smollm2", (3072, 4096, 8192), 24)


@dataclass(frozen=True)
class LayerCapture:
    """One layer: keys and values bf16 [kv_heads, tokens, dim].

    queries: bf16 [positions, kv_heads, group, dim], of `positions[i]`, which see the tokens up to
    their own. `scale` is what Q K^T is multiplied by; `gains` int8 [kv_heads, dim].
    """

    layer: int
    keys: torch.Tensor
    values: torch.Tensor
    queries: torch.Tensor
    positions: tuple[int, ...]
    scale: float
    gains: torch.Tensor


def joined(captures: Sequence[LayerCapture]) -> list[LayerCapture]:
    """Each two layers as one of both head_dims: no model's, but of rows as real ones have them.

    A score is the sum of both layers' scores, divided by the root of 2 so that it spreads as they
    do. The last of an odd number is left out.
    """
    return [
        replace(
            first,
            keys=torch.cat([first.keys, second.keys], -1),
            values=torch.cat([first.values, second.values], -1),
            queries=torch.cat([first.queries, second.queries], -1),
            scale=first.scale / 2**0.5,
            gains=torch.cat([first.gains, second.gains], -1),
        )
        for first, second in zip(captures[::2], captures[1::2], strict=False)
    ]


class CaptureSource:
    """Captures of one subject, made when they are asked for and not kept yet. Not thread-safe."""

    def __init__(self, subject: Subject, folder: Path, progress: Callable[[str], None]) -> None:
        """`folder` has the model in Hugging Face layout."""
        self.subject = subject
        self._folder = folder
        self._progress = progress

    @cached_property
    def model(self) -> Any:
        """The model in bf16, as engines run it; what is captured already does not need it."""
        return load_model(self._folder, "bfloat16")[0]

    @cached_property
    def tokenizer(self) -> Any:
        """The model's."""
        return AutoTokenizer.from_pretrained(self._folder, local_files_only=True)

    @cached_property
    def _global_layers(self) -> list[int]:
        return global_layers(AutoConfig.from_pretrained(self._folder, local_files_only=True))

    @cached_property
    def gains(self) -> dict[int, torch.Tensor]:
        """Gains of all layers that attend to all tokens, int8 [kv_heads, dim] each.

        They come of the calibration text; TextMissing where this machine lacks it.
        """
        with self._kept(CALIBRATION, self._calibrate) as file:
            return {int(name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def layers_of(self, text: Text) -> list[LayerCapture]:
        """A text's captured layers; TextMissing where this machine lacks it."""
        positions = self._positions()
        gains = self.gains
        layers = []
        with self._kept(text, self._capture) as file:
            for layer in self._captured_layers():
                part = {name: file.get_tensor(f"{layer}.{name}") for name in ("keys", "values")}
                queries = file.get_tensor(f"{layer}.queries").unflatten(
                    0, (part["keys"].shape[0], -1)
                )
                layers.append(
                    LayerCapture(
                        layer=layer,
                        **part,
                        queries=queries.permute(2, 0, 1, 3).contiguous(),
                        positions=tuple(positions),
                        scale=float(file.get_tensor(f"{layer}.scale")),
                        gains=gains[layer],
                    )
                )
        return layers

    def _captured_layers(self) -> list[int]:
        """Which layers are captured."""
        layers = self._global_layers
        wanted = min(self.subject.layers, len(layers))
        return [layers[place] for place in torch.linspace(0, len(layers) - 1, wanted).long()]

    def tokens_of(self, text: Text) -> torch.Tensor:
        """A text's tokens, int64 [tokens]; TextMissing where this machine lacks it."""
        return text.tokens(self.tokenizer, self.subject.tokens)

    def _positions(self) -> list[int]:
        subject = self.subject
        return [place for length in subject.lengths for place in subject.positions_of(length)]

    def _kept(self, text: Text, make: Callable[[torch.Tensor], dict[str, torch.Tensor]]) -> Any:
        tokens = self.tokens_of(text)
        made_from = f"{_FORMAT} {self._folder.name} {self.subject} {tokens.tolist()}"
        if text is CALIBRATION:
            made_from = f"gains {_FORMAT} {self._folder.name} {tokens.tolist()}"
        digest = hashlib.sha256(made_from.encode()).hexdigest()[:16]
        path = captures_folder() / f"{self.subject.name}-{text.name}-{digest}.safetensors"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._progress(f"{self.subject.name}: reading {text.name}, once")
            made = make(tokens)
            partial = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                save_file(made, partial)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        return safe_open(path, "pt")

    def reading_of(self, tokens: torch.Tensor, layers: Collection[int] = ()) -> Reading:
        """The model behind some tokens, with the queries of some layers."""
        reading = Reading(self.model, layers)
        reading.read(tokens, lambda text: self._progress(f"{self.subject.name}: {text}"))
        return reading

    def _calibrate(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        layers = self._global_layers
        reading = self.reading_of(tokens, layers)
        gains = {}
        for layer in layers:
            keys, _ = reading.rows(layer)
            queries = reading.queries(layer).unflatten(0, (keys.shape[0], -1))
            heads = [gains_from(*each) for each in zip(queries, keys, strict=True)]
            gains[str(layer)] = torch.stack(heads)
        return gains

    def _capture(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        layers = self._captured_layers()
        reading = self.reading_of(tokens, layers)
        captured = {}
        for layer in layers:
            keys, values = reading.rows(layer)
            captured[f"{layer}.keys"] = keys.contiguous()
            captured[f"{layer}.values"] = values.contiguous()
            captured[f"{layer}.queries"] = reading.queries(layer)[:, self._positions()].contiguous()
            captured[f"{layer}.scale"] = torch.tensor(reading.scales[layer], dtype=torch.float64)
        return captured


def captures_folder() -> Path:
    """Where captures are kept, beside the models."""
    return models_folder().with_name("captures")
