"""Reproduces the model: corpus, tokenizer, training, export.

    python -m training.run --out DIR

Everything lands in DIR: `corpus/` (packages and text), `tokenizer/`, `checkpoint.pt`, `log.jsonl`
and, at the end, `model/`. Run it again to continue after an interruption (Ctrl-C saves first).
"""

import argparse
from pathlib import Path

import torch

from training import corpus, tokenizer
from training.export import export
from training.model import ModelConfig
from training.schedule import RECALL_3M
from training.trainer import Trainer


def main() -> int:
    """Runs whatever is left to do in the output folder."""
    parser = argparse.ArgumentParser(prog="python -m training.run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--eager", action="store_true", help="do without torch.compile (no C++ compiler needed)"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    out: Path = arguments.out

    text = corpus.load(out / "corpus")
    if not (out / "tokenizer" / "tokenizer.json").exists():
        tokenizer.save(
            tokenizer.train(text.train), out / "tokenizer", ModelConfig().max_position_embeddings
        )
    vocabulary = tokenizer.load(out / "tokenizer")
    trainer = Trainer(
        ModelConfig(),
        vocabulary,
        text.train,
        RECALL_3M,
        seed=arguments.seed,
        compiled=not arguments.eager,
    )
    if not trainer.run(out):
        return 130
    export(trainer.model, vocabulary, out / "model")
    print(f"wrote {out / 'model'}; measure it with: python -m training.evaluate {out / 'model'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
