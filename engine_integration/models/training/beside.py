"""Checkpoints that share another one's weights: only what differs is written again.

The folder is a sharded checkpoint in Hugging Face's layout, one of whose files is the other's.
"""

import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

WEIGHTS = "model.safetensors"
OWN_WEIGHTS = "own.safetensors"
INDEX = "model.safetensors.index.json"


def weight_files(folder: Path) -> list[Path]:
    """Where the weights of a checkpoint lie, in the order in which a loader reads them."""
    if not (folder / INDEX).exists():
        return [folder / WEIGHTS]
    names = json.loads((folder / INDEX).read_text())["weight_map"].values()
    return [folder / name for name in sorted(set(names))]


def save_beside(model: PreTrainedModel, folder: Path, base: Path) -> None:
    """Writes a model in bfloat16; tensors that `base` has to the bit are named there, not copied.

    The tokenizer is `base`'s. Loaders read files by name and take what comes last: ValueError for
    folders that lie so that `base`'s file would come behind the model's own.
    """
    elsewhere = os.path.relpath(base / WEIGHTS, folder)
    if elsewhere > OWN_WEIGHTS:
        raise ValueError(f"{elsewhere} would be read behind {OWN_WEIGHTS}: choose another folder")
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    shared = load_file(base / WEIGHTS)
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
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(os.path.relpath(base / name, folder))
