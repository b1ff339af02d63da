"""What tests of vLLM's attention share: models, prompts, and engines that answer them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import ROOT, Environment
from bench.engines.shapes import DOCUMENT
from nearkv.demo.prompt import draw_needle, make_prompt, read_document
from tests.engines.vllm_engines import entry_points_of_the_wheel

PROGRAM = Path(__file__).parent / "vllm_attention_program.py"
LAYERS, KV_HEADS, WINDOW_TOKENS, NEW_TOKENS = 4, 2, 64, 80
# Largest difference of a log-probability: the kernels add the same numbers up in other orders, so
# that a key or value between two bfloat16 numbers may be rounded to the other one. A long test
# holds that it is far below what rounding all K and V does.
EXACT = 5e-4
SHIPPED = ROOT / "engine_integration" / "models" / "recall_3m"


def shown_configurations() -> list[dict[str, Any]]:
    """All of the README's."""
    readme = (ROOT / "engine_integration" / "nearkv" / "vllm" / "README.md").read_text()
    return [*map(json.loads, re.findall(r"--additional-config '(.*?)'", readme, re.DOTALL))]


def shown() -> dict[str, Any]:
    """That of a pool, with a smaller one, for a model in float32."""
    configs = shown_configurations()
    [config] = [each for each in configs if "uri" in each.get("nearkv_attention", {})]
    config["nearkv_attention"] |= {
        "uri": "cpu:?memory=64MiB",
        "window_tokens": WINDOW_TOKENS,
        "rounded": "bfloat16",
    }
    return config


def far(pool: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Options of an engine that attends near the data."""
    config = shown()
    config["nearkv_attention"] |= pool or {}
    return {"additional_config": config} | options


def prompt(tokens: int, kind: int) -> list[int]:
    return [1, *(3 + (i * 7 + kind * kind * (1 + i % 5)) % 500 for i in range(tokens))]


PROMPTS = [prompt(300 + 50 * kind, kind) for kind in range(3)]
SHARED = prompt(319, 5)
BRANCHES = [SHARED + prompt(70, 6), SHARED + prompt(90, 7)]
BATCHES = {
    "all": [PROMPTS, [SHARED], BRANCHES],
    "prompts": [PROMPTS],
    # 16 blocks of 32 tokens have no room for what the first two become. Each of the others takes
    # all blocks, in the reverse order of the one before: the last has the order of the third.
    "crowd": [[prompt(210, 1), prompt(230, 2)], *([prompt(425, kind)] for kind in (3, 4, 5))],
}
LONG_TOKENS = 4500  # Of which a part is read, if codes are.
FEW_BLOCKS = {"num_gpu_blocks_override": 17, "max_model_len": 512}  # And the null block.
IN_CHUNKS = {"max_num_batched_tokens": 128}


def recalled(length: int) -> list[list[int]]:
    """Documents of so many tokens, each with a needle, for the model that NearKV ships."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(SHIPPED)
    text = read_document(DOCUMENT)
    needles = [(draw_needle(text, seed), depth) for seed, depth in enumerate((0.1, 0.5, 0.9))]
    return [make_prompt(tokenizer, text, needle, at, length).tokens for needle, at in needles]


def save_models(folder: Path, small_llama: Path) -> dict[str, Path]:
    """Saves models of random weights, small enough that they do not amplify what is rounded.

    Returns their folders by name, and the shipped model's.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = {
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }
    mistral = shape | {"num_key_value_heads": KV_HEADS, "head_dim": 64}
    mixed = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 200}
    latents = {"kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32}
    latents |= {"q_lora_rank": None, "first_k_dense_replace": LAYERS, "n_routed_experts": 4}
    configs = {
        "whole": transformers.MistralConfig(**mistral, sliding_window=None),
        "sliding": transformers.MistralConfig(**mistral, sliding_window=200),
        "mixed": transformers.Gemma3TextConfig(**mistral, **mixed),
        "latents": transformers.DeepseekV2Config(**shape, num_key_value_heads=4, **latents),
    }
    for name, config in configs.items():
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config).float()
        with torch.no_grad():
            for weights in model.parameters():
                if weights.dim() == 2:
                    weights.normal_(0, 0.08)
        model.save_pretrained(folder / name)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name / file).write_bytes((small_llama / file).read_bytes())
    return {name: folder / name for name in configs} | {"shipped": SHIPPED}


class AttentionEngines:
    """Runs engines by their names, all in one process, for each takes seconds."""

    def __init__(self, vllm: Environment, folder: Path, small_llama: Path) -> None:
        self._vllm = vllm
        self._models = save_models(folder / "models", small_llama)
        (folder / "wheel").mkdir()
        self._entry_points = entry_points_of_the_wheel(folder / "wheel")

    def run(self, asked: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """What each answered, as vllm_attention_program.py tells it."""
        runs = [
            {"batches": "all", "tokens": NEW_TOKENS, "options": {}}
            | each
            | {"model": str(self._models[each.get("model", "whole")])}
            for each in asked.values()
        ]
        batches = BATCHES | {"recalled": [recalled(1900)], "long": [recalled(LONG_TOKENS)]}
        question = {"entry_points": str(self._entry_points), "batches": batches, "runs": runs}
        return dict(zip(asked, self._vllm.run(PROGRAM, question, timeout_s=580), strict=True))


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest, of the log-probabilities that both name after the same tokens."""
    largest = 0.0
    runs = (zip(run["tokens"], run["logprobs"], strict=True) for run in (one, other))
    for mine, theirs in zip(*runs, strict=True):
        steps = (zip(*answer, strict=True) for answer in (mine, theirs))
        for (token, logprobs), (their_token, theirs) in zip(*steps, strict=True):
            for name in logprobs.keys() & theirs.keys():
                largest = max(largest, abs(logprobs[name] - theirs[name]))
            if token != their_token:
                break
    return largest
