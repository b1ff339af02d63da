"""Writes a Llama checkpoint of Hugging Face as the GGUF file that llama.cpp loads.

python -m nearkv.llama_cpp.export MODEL_FOLDER OUT.gguf [--type f32]
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, LlamaFileType
from safetensors import safe_open

_TYPES = {
    "f32": (GGMLQuantizationType.F32, LlamaFileType.ALL_F32),
    "f16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    "bf16": (GGMLQuantizationType.BF16, LlamaFileType.MOSTLY_BF16),
}
_STORED = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_OF_MODEL = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_OF_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"model\.layers\.(?P<number>\d+)\.(?P<name>.+)\.weight")
_DIGITS = {"type": "Digits", "individual_digits": True}


class ExportError(ValueError):
    """The checkpoint has something that this export does not know; the text says what."""


def export(folder: Path, target: Path, type_name: str | None = None) -> str:
    """Writes the file, whole or not at all, and says what became of the tokenizer.

    `type_name`: f32, f16 or bf16 for the matrices; None: as they are stored. Vectors are f32.
    """
    config = json.loads((folder / "config.json").read_text())
    _check(config)
    name = type_name or _STORED[config["dtype"]]
    tensor_type, file_type = _TYPES[name]
    unfinished = target.with_name(target.name + ".unfinished")
    writer = gguf.GGUFWriter(unfinished, "llama")
    try:
        writer.add_name(folder.resolve().name)
        writer.add_file_type(file_type)
        _add_shape(writer, config)
        said = _add_tokenizer(writer, folder, config)
        missing = _expected(config)
        for source, weights in _weights(folder):
            missing.discard(source)
            _add_tensor(writer, source, weights, config, tensor_type)
        if missing:
            raise ExportError(f"{folder} lacks {', '.join(sorted(missing)[:3])}")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return said


def _check(config: dict[str, Any]) -> None:
    if config.get("architectures") != ["LlamaForCausalLM"]:
        raise ExportError(f"only LlamaForCausalLM is known, not {config.get('architectures')}")
    rope = config.get("rope_parameters") or {}
    wrong = {
        "rope_type": rope.get("rope_type", "default") != "default",
        "rope_scaling": config.get("rope_scaling"),
        "attention_bias": config.get("attention_bias"),
        "mlp_bias": config.get("mlp_bias"),
        "hidden_act": config.get("hidden_act", "silu") != "silu",
        "dtype": config.get("dtype") not in _STORED,
    }
    if found := [name for name in wrong if wrong[name]]:
        raise ExportError(f"config.json has a {found[0]} that this export does not know")


def _head_dim(config: dict[str, Any]) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _add_shape(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    head_dim = _head_dim(config)
    rope = config.get("rope_parameters") or config
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(rope.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def _expected(config: dict[str, Any]) -> set[str]:
    layers = range(config["num_hidden_layers"])
    names = {f"model.layers.{i}.{name}.weight" for i in layers for name in _OF_LAYER}
    return names | set(_OF_MODEL) - ({"lm_head.weight"} if config["tie_word_embeddings"] else set())


def _weights(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118
                yield name, tensors.get_tensor(name).float().numpy()


def _add_tensor(
    writer: gguf.GGUFWriter,
    source: str,
    weights: np.ndarray,
    config: dict[str, Any],
    tensor_type: GGMLQuantizationType,
) -> None:
    heads = {
        "attn_q": config["num_attention_heads"],
        "attn_k": config["num_key_value_heads"],
    }
    target = _OF_MODEL.get(source)
    if target is None:
        layer = _LAYER.fullmatch(source)
        if layer is None or layer["name"] not in _OF_LAYER:
            raise ExportError(f"the tensor {source} is none that this export knows")
        name = _OF_LAYER[layer["name"]]
        if name in heads:
            weights = _interleaved(weights, heads[name])
        target = f"blk.{layer['number']}.{name}.weight"
    if weights.ndim == 1:
        tensor_type = GGMLQuantizationType.F32
    data = gguf.quants.quantize(np.ascontiguousarray(weights), tensor_type)
    writer.add_tensor(target, data, raw_dtype=tensor_type)


def _interleaved(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows as ggml's rope pairs them: neighbours, not halves of a head."""
    rows, columns = weights.shape
    halves = weights.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> str:
    """Adds one that llama.cpp has too; a file without works with numbers of tokens."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text()) if file.exists() else {}
    kind = _known_as(tokenizer)
    if kind is None:
        writer.add_tokenizer_model("none")
        return "without a tokenizer: llama.cpp has none like it"
    words = {number: word for word, number in tokenizer["model"]["vocab"].items()}
    types = dict.fromkeys(words, gguf.TokenType.NORMAL)
    for added in tokenizer["added_tokens"]:
        words[added["id"]] = added["content"]
        special = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        types[added["id"]] = special
    numbers = range(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(kind)
    writer.add_token_list([words.get(number, f"[PAD{number}]") for number in numbers])
    writer.add_token_types([types.get(number, gguf.TokenType.UNUSED) for number in numbers])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in merges])
    add: dict[str, Callable[[int], None]] = {
        "bos_token_id": writer.add_bos_token_id,
        "eos_token_id": writer.add_eos_token_id,
        "pad_token_id": writer.add_pad_token_id,
    }
    for name in add:
        if isinstance(config.get(name), int):
            add[name](config[name])
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    return "with its tokenizer"


def _known_as(tokenizer: dict[str, Any]) -> str | None:
    """What llama.cpp calls the splitting into words of a byte-level BPE without more to it."""
    if tokenizer.get("model", {}).get("type") != "BPE" or tokenizer.get("normalizer"):
        return None
    if tokenizer.get("post_processor") or not tokenizer.get("pre_tokenizer"):
        return None
    splits = tokenizer["pre_tokenizer"]
    steps = splits.get("pretokenizers", [splits])
    last = steps[-1]
    if last["type"] != "ByteLevel" or last["add_prefix_space"] or not last.get("use_regex", True):
        return None
    if len(steps) == 1:
        return "gpt-2"
    return "smollm" if steps[:-1] == [_DIGITS] else None


def main(words: list[str] | None = None) -> int:
    """The command; 1 if the checkpoint cannot be exported."""
    parser = argparse.ArgumentParser("python -m nearkv.llama_cpp.export", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="MODEL_FOLDER")
    parser.add_argument("target", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=_TYPES, help="of the matrices; else as they are stored")
    asked = parser.parse_args(words)
    try:
        print(f"{asked.target}: {export(asked.folder, asked.target, asked.type)}")
    except (ExportError, OSError) as error:
        print(f"nearkv.llama_cpp.export: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
