"""Checkpoints that share another one's weights: only what differs is written again.

The folder is a sharded checkpoint in Hugging Face's layout, one of whose files is the other's.
"""

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

WEIGHTS = "model.safetensors"
OWN_WEIGHTS = "own.safetensors"
INDEX = "model.safetensors.index.json"


def save_beside(model: PreTrainedModel, folder: Path, base: Path) -> None:
    """Writes a model in bfloat16; tensors that `base` has to the bit are named there, not copied.

    The tokenizer is `base`'s. A loader takes later files' tensors over earlier ones', by name:
    `folder` must not lie so that its path to `base` comes behind its own file's name.
    """
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    shared = load_file(base / WEIGHTS)
    elsewhere = os.path.relpath(base / WEIGHTS, folder)
    assert elsewhere < OWN_WEIGHTS
    own = {
        name: tensor
        for name, tensor in tensors.items()
        if name not in shared or not torch.equal(tensor, shared[name])
    }
    if own:
        save_file(own, folder / OWN_WEIGHTS, metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())},
        "weight_map": {name: OWN_WEIGHTS if name in own else elsewhere for name in sorted(tensors)},
    }
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(base / name, folder / name)
