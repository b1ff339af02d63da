"""Measures a model folder: bits per byte and needle recall by length, depth and line format.

    python -m training.evaluate MODEL_DIR --lengths 2048,8192,16384,32768 --json FILE

The held-out text comes from --text, or else from the corpus folder that `training.run` builds
(--corpus), which is built first if it is missing.
"""

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
import transformers
from transformers import LlamaForCausalLM

from training import corpus, tokenizer
from training.needles import TRAINED_FORMATS, UNSEEN_FORMATS
from training.recall import Outcome, Question, bits_per_byte, make_prompt, outcomes

DEPTH_BINS = 5
WINDOW_TOKENS = 2048
_FORMATS = {line_format.name: line_format for line_format in (*TRAINED_FORMATS, *UNSEEN_FORMATS)}


def main() -> int:
    """Measures the model that the command line names and prints the tables."""
    arguments = _parse()
    torch.set_num_threads(arguments.threads)
    model = LlamaForCausalLM.from_pretrained(
        arguments.model, dtype=getattr(torch, arguments.dtype), attn_implementation="sdpa"
    ).eval()
    vocabulary = tokenizer.load(arguments.model)
    if arguments.text:
        text = arguments.text.read_text(encoding="utf-8")
    else:
        text = corpus.load(arguments.corpus).heldout

    bits, text_bytes = bits_per_byte(model, vocabulary, text, arguments.windows, WINDOW_TOKENS)
    print(f"held-out text: {bits:.3f} bits/byte over {text_bytes} bytes", flush=True)
    styles = [_FORMATS[name] for name in arguments.formats] * arguments.needles
    results: list[Outcome] = []
    begin, done = time.monotonic(), 0
    total = sum(arguments.lengths) * arguments.prompts
    for length in arguments.lengths:
        for index in range(arguments.prompts):
            rng = random.Random(f"{arguments.seed}/{length}/{index}")
            prompt = make_prompt(vocabulary, text, length, styles, arguments.traces, rng)
            results += outcomes(model, vocabulary, length, prompt)
            done += length
            left = (time.monotonic() - begin) * (total - done) / done
            right = sum(outcome.correct for outcome in results if outcome.length == length)
            count = sum(outcome.length == length for outcome in results)
            print(f"length {length}: {right}/{count} right, {left / 60:.0f} min left", flush=True)

    report = {
        "date": date.today().isoformat(),
        "command": " ".join(["python -m training.evaluate", *_public_arguments(sys.argv[1:])]),
        "weights_sha256": _sha256(arguments.model / "model.safetensors"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": arguments.dtype,
        "bits_per_byte": round(bits, 4),
        "text_bytes": text_bytes,
        "lines_per_prompt": len(styles) + 2 * arguments.traces,
        "recall": {str(length): _summary(results, length) for length in arguments.lengths},
    }
    print(tables(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", type=Path, metavar="MODEL_DIR")
    parser.add_argument("--lengths", type=_integers, default=[2048, 8192, 16384, 32768])
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--corpus", type=Path, default=Path("corpus"), metavar="DIR")
    parser.add_argument("--text", type=Path, metavar="FILE", help="held-out text to use instead")
    parser.add_argument("--prompts", type=int, default=6, help="prompts for each length")
    parser.add_argument("--needles", type=int, default=3, help="needles of each format in a prompt")
    parser.add_argument("--traces", type=int, default=2, help="two-hop traces in a prompt")
    parser.add_argument("--formats", type=_names, default=list(_FORMATS), metavar="NAME,NAME")
    parser.add_argument("--windows", type=int, default=64, help="windows for bits per byte")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _integers(text: str) -> list[int]:
    return [int(item) for item in text.split(",")]


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = set(names) - set(_FORMATS)
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown format {sorted(unknown)}, have {list(_FORMATS)}")
    return names


def _public_arguments(arguments: list[str]) -> list[str]:
    """The arguments with paths cut to their last part: reports travel, folders do not."""
    return [Path(item).name if "/" in item else item for item in arguments]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _summary(results: list[Outcome], length: int) -> dict[str, object]:
    here = [outcome for outcome in results if outcome.length == length]
    trained = {line_format.name for line_format in TRAINED_FORMATS}

    def tally(wanted: Callable[[Question], bool]) -> dict[str, int]:
        chosen = [outcome.correct for outcome in here if wanted(outcome.question)]
        return {"right": sum(chosen), "of": len(chosen)}

    def in_bin(question: Question, index: int) -> bool:
        return question.style in trained and int(question.depth * DEPTH_BINS) == index

    return {
        "trained_formats": tally(lambda question: question.style in trained),
        "by_depth": [tally(lambda q, i=index: in_bin(q, i)) for index in range(DEPTH_BINS)],
        "by_style": {
            style: tally(lambda question, style=style: question.style == style)
            for style in dict.fromkeys(outcome.question.style for outcome in here)
        },
    }


def tables(report: dict) -> str:
    """Markdown tables of a report, as the model card shows them."""

    def cell(tally: dict[str, int]) -> str:
        if not tally["of"]:
            return "-"
        return f"{100 * tally['right'] / tally['of']:.0f} % ({tally['right']}/{tally['of']})"

    bins = [f"{100 * i // DEPTH_BINS}-{100 * (i + 1) // DEPTH_BINS} %" for i in range(DEPTH_BINS)]
    rows = [["length", "trained formats", *(f"depth {name}" for name in bins)]]
    rows += [
        [length, cell(summary["trained_formats"]), *map(cell, summary["by_depth"])]
        for length, summary in report["recall"].items()
    ]
    styles = list(next(iter(report["recall"].values()))["by_style"])
    unseen = {line_format.name for line_format in UNSEEN_FORMATS}
    names = [f"{style} (unseen)" if style in unseen else style for style in styles]
    style_rows = [["length", *names]]
    style_rows += [
        [length, *(cell(summary["by_style"][style]) for style in styles)]
        for length, summary in report["recall"].items()
    ]
    return "\n\n".join(_markdown(table) for table in (rows, style_rows))


def _markdown(rows: list[list[str]]) -> str:
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    raise SystemExit(main())
