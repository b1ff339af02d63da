"""What the commands that make a model are told: where to write it, from which text, how."""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from training import corpus


def parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Of `python -m training.COMMAND`; takes --out, --corpus, --seed and --threads."""
    made = argparse.ArgumentParser(prog=f"python -m training.{command}", description=description)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--out", type=Path, required=True, metavar="MODEL_DIR")
    made.add_argument("--corpus", type=Path, default=Path("corpus"), metavar="DIR")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--threads", type=int, default=2)
    return made


def make(arguments: argparse.Namespace, write: Callable[[str], None]) -> int:
    """Has `write` make a model of the corpus's text in --out; 0, the command's exit status.

    A missing corpus is built first.
    """
    torch.set_num_threads(arguments.threads)
    write(corpus.train_path(arguments.corpus).read_text(encoding="utf-8"))
    print(f"wrote {arguments.out}; measure it with: python -m training.evaluate {arguments.out}")
    return 0
