"""Makes a model of another shape from the shipped one, and writes what differs.

    python -m training.derive mla --out shapes/mla

The corpus is built in --corpus first if it is missing. Shapes: see shapes.py.
"""

import argparse
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from training import corpus
from training.beside import save_beside
from training.distil import attention_moments, match_layers
from training.schedule import Phase, Stage
from training.shapes import SHAPES, shaped

LESSON = Stage((Phase(150, batch=2, length=512, mix=(1, 1, 4)),), rate=0.5, dilution=1.0)
_REPORT_EVERY_STEPS = 25


def main() -> int:
    """Makes what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m training.derive", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL_DIR")
    parser.add_argument("--base", type=Path, default=Path("recall_3m"), metavar="MODEL_DIR")
    parser.add_argument("--corpus", type=Path, default=Path("corpus"), metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    text = corpus.train_path(arguments.corpus).read_text(encoding="utf-8")
    model = derive(text, arguments.base, arguments.shape, arguments.seed)
    save_beside(model, arguments.out, arguments.base)
    print(f"wrote {arguments.out}; measure it with: python -m training.evaluate {arguments.out}")
    return 0


def derive(text: str, base: Path, shape: str, seed: int) -> PreTrainedModel:
    """A model of a shape that was taught on `text` by the Llama in the folder `base`."""
    llama = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(base).backend_tokenizer
    moments = attention_moments(llama, tokenizer, text, seed)
    student = shaped(llama, SHAPES[shape], moments)
    if not (layers := SHAPES[shape].taught):
        return student
    begin, errors = time.monotonic(), []
    for error in match_layers(student, llama, layers, tokenizer, text, LESSON, str(seed)):
        errors.append(error)
        if len(errors) % _REPORT_EVERY_STEPS == 0:
            recent = sum(errors[-_REPORT_EVERY_STEPS:]) / _REPORT_EVERY_STEPS
            minutes = (time.monotonic() - begin) / 60
            print(f"step {len(errors)}: error {recent:.4f}, {minutes:.1f} min", flush=True)
    return student


if __name__ == "__main__":
    raise SystemExit(main())
