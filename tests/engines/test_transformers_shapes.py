"""What models of transformers keep, as their configs say it; shapes that nobody knows."""

import pytest
import torch
from transformers import (
    DeepseekV32Config,
    Dots3NoteTextConfig,
    LlamaConfig,
    MiniMaxConfig,
    Qwen4ExpTextConfig,
    RecurrentGemmaConfig,
)

pytest.importorskip("nearkv.core", exc_type=ImportError)
from bench.engines.environment import ROOT
from nearkv.transformers import make_pool, shape_of
from nearkv.transformers.shape import LayerShape
from tests.engines.test_transformers_encoders import ENCODERS
from tests.engines.test_transformers_infini import CONFIG as INFINI
from tests.engines.transformers_models import (
    CONFIGS,
    HYBRIDS,
    INDEXED,
    RECURRENT,
    SMALL,
    SPARSE,
)

ATTENDS, RECURS, BOTH = LayerShape(True), LayerShape(False, 1), LayerShape(True, 1)
NOTHING, INDEXES = LayerShape(False), LayerShape(True, indexes=True)


@pytest.mark.parametrize(
    ("config", "layers", "rows"),
    [
        (CONFIGS["llama, groups of 2"], [ATTENDS] * 3, (4, 16)),
        (CONFIGS["mistral, one KV head, window 100"], [ATTENDS] * 3, (1, 16)),
        (CONFIGS["gemma3, windows and one full layer"], [ATTENDS] * 3, (4, 16)),
        (CONFIGS["deepseek v3, latents"], [ATTENDS] * 3, (1, 64)),
        (HYBRIDS["jamba, mamba and attention"], [RECURS, ATTENDS] * 2, (2, 16)),
        (HYBRIDS["falcon h1, mamba 2 beside attention"], [BOTH] * 3, (2, 16)),
        (
            HYBRIDS["nemotron h, layers that keep nothing"],
            [RECURS, ATTENDS, NOTHING, RECURS],
            (2, 16),
        ),
        (HYBRIDS["kimi linear, delta rule and latents"], [RECURS, ATTENDS] * 2, (1, 64)),
        (RECURRENT["mamba 2"], [RECURS] * 3, None),
        (SPARSE["deepseek v3.2"], [INDEXES] * 3, (1, 64)),
        (
            SPARSE["glm 5, a layer that takes the picks of another"],
            [INDEXES, ATTENDS, INDEXES],
            (1, 64),
        ),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_a_config_says_what_its_layers_keep(config, layers, rows) -> None:
    shape = shape_of(config)
    assert list(shape.layers) == layers
    assert rows is None or (shape.rows["kv_heads"], shape.rows["head_dim"]) == rows
    assert bool(shape.rows) == (rows is not None)


class Unknown(LlamaConfig):
    """Its layers are of a kind that does not exist yet."""

    model_type = "of_tomorrow"


UNKNOWN = Unknown(**SMALL)
UNKNOWN.layer_types = ["full_attention", "holographic_attention", "full_attention"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (UNKNOWN, "of_tomorrow has layers of holographic_attention.*it knows full_attention, "),
        (RecurrentGemmaConfig(vocab_size=97), "in its modules"),
        (MiniMaxConfig(vocab_size=97), "in a cache of its own"),
        (RECURRENT["rwkv"], "give that to nearkv.transformers.PrefixStates"),
        (RECURRENT["mamba"], "keeps no K and V, so that it needs no pool"),
        (SPARSE["deepseek v3.2"], "use NearKVSparseCache"),
        (
            DeepseekV32Config(**INDEXED | {"index_topk": 5000}),
            "index_topk of .* a device takes 4096",
        ),
        (DeepseekV32Config(**INDEXED | {"index_head_dim": 24}), "index_head_dim is 24"),
        (Dots3NoteTextConfig(num_hidden_layers=4), "not for all layers"),
        (Qwen4ExpTextConfig(num_hidden_layers=4), "not for all layers"),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_shapes_that_do_not_fit_are_refused_with_what_to_do(config, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_pool(config, "cpu:?memory=64MiB", dtype=torch.bfloat16)


SHAPES = ROOT / "engine_integration" / "nearkv" / "transformers" / "SHAPES.md"
TESTED = {
    "MHA, MQA, GQA": [
        config for name, config in CONFIGS.items() if name.startswith(("llama", "qwen", "mistral"))
    ],
    "sliding windows, local and global layers": [
        config for name, config in CONFIGS.items() if "window" in name
    ],
    "MLA": [
        *(config for config in CONFIGS.values() if getattr(config, "kv_lora_rank", None)),
        *(config for config in HYBRIDS.values() if getattr(config, "kv_lora_rank", None)),
    ],
    "DSA": SPARSE.values(),
    "states beside attention": HYBRIDS.values(),
    "states alone": RECURRENT.values(),
    "encoder and decoder": ENCODERS.values(),
    "Infini-attention": [INFINI],
}


def test_the_table_of_shapes_names_the_models_that_are_tested() -> None:
    lines = [line for line in SHAPES.read_text().splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    told = {row[0]: row[-1].split(", ") for row in rows}
    tested = {shape: sorted({c.model_type for c in configs}) for shape, configs in TESTED.items()}
    assert told == tested
