"""Trains a model: corpus, tokenizer, training, export.

    python -m training.run --out MODEL_DIR

The corpus is built in --corpus first if it is missing. Only the finished model is written.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from training import command_line, tokenizer
from training.initial_weights import initialise
from training.model import llama_config, new_llama
from training.schedule import RECALL_3M, Stage
from training.trainer import train


def main() -> int:
    """Trains what the command line says."""
    arguments = command_line.parser("run", __doc__).parse_args()

    def write(text: str) -> None:
        train_and_export(text, RECALL_3M, arguments.seed, arguments.out)

    return command_line.make(arguments, write)


def train_and_export(text: str, schedule: Sequence[Stage], seed: int, folder: Path) -> None:
    """Makes a tokenizer and a model from `text` and writes both into `folder`."""
    vocabulary = tokenizer.train(text)
    config = llama_config(vocab_size=vocabulary.get_vocab_size())
    model = new_llama(config)
    initialise(model, seed)
    train(model, vocabulary, text, schedule, seed)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save(vocabulary, folder, config.max_position_embeddings)


if __name__ == "__main__":
    raise SystemExit(main())
