"""Trains a model: corpus, tokenizer, training, export.

    python -m training.run --out MODEL_DIR

The corpus is built in --corpus first if it is missing. Only the finished model is written.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from training import corpus, tokenizer
from training.initial_weights import initialise
from training.model import llama_config, new_llama
from training.schedule import RECALL_3M, Stage
from training.trainer import train


def main() -> int:
    """Trains what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m training.run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL_DIR")
    parser.add_argument("--corpus", type=Path, default=Path("corpus"), metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    text = corpus.train_path(arguments.corpus).read_text(encoding="utf-8")
    train_and_export(text, RECALL_3M, arguments.seed, arguments.out)
    print(f"wrote {arguments.out}; measure it with: python -m training.evaluate {arguments.out}")
    return 0


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
