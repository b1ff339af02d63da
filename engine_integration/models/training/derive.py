"""Makes a model of another shape from the shipped one, and writes what differs.

    python -m training.derive mla --out shapes/mla

The corpus is built in --corpus first if it is missing. Shapes: see shapes.py.
"""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import mean

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from training import command_line
from training.beside import save_beside
from training.distil import attention_moments, match_layers
from training.indexers import all_picked, match_indexers
from training.schedule import Phase, Stage
from training.shapes import SHAPES, shaped

LESSON = Stage((Phase(150, batch=2, length=512, mix=(1, 1, 4)),), rate=0.5, dilution=1.0)
INDEX_LESSON = Stage((Phase(600, batch=2, length=512, mix=(1, 1, 4)),), dilution=1.0)
_REPORT_EVERY_STEPS = 25


def main() -> int:
    """Makes what the command line says."""
    parser = command_line.parser("derive", __doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--base", type=Path, default=Path("recall_3m"), metavar="MODEL_DIR")
    arguments = parser.parse_args()

    def write(text: str) -> None:
        model = derive(text, arguments.base, arguments.shape, arguments.seed)
        save_beside(model, arguments.out, arguments.base)

    return command_line.make(arguments, write)


def derive(text: str, base: Path, shape: str, seed: int) -> PreTrainedModel:
    """A model of a shape that was taught on `text` by the Llama in the folder `base`."""
    llama = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(base).backend_tokenizer
    moments = attention_moments(llama, tokenizer, text, seed)
    wanted = SHAPES[shape]
    student = shaped(llama, wanted, moments)
    if wanted.taught:
        given = (wanted.taught, tokenizer, text, LESSON, str(seed))
        with all_picked(student) if wanted.indexed else nullcontext():
            _report("attention", match_layers(student, llama, *given))
    if wanted.indexed:
        llama.set_attn_implementation("eager")
        _report(
            "indexers", match_indexers(student, llama, tokenizer, text, INDEX_LESSON, str(seed))
        )
    return student


def _report(what: str, errors: Iterator[float]) -> None:
    """Prints how a lesson goes, which takes place meanwhile."""
    begin, recent = time.monotonic(), []
    for step, error in enumerate(errors, 1):
        recent.append(error)
        if step % _REPORT_EVERY_STEPS == 0:
            minutes = (time.monotonic() - begin) / 60
            print(f"{what}, step {step}: error {mean(recent):.4f}, {minutes:.1f} min", flush=True)
            recent.clear()


if __name__ == "__main__":
    raise SystemExit(main())
