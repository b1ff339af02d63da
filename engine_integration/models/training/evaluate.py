"""Measures a model folder: bits per byte, and needle recall by length and depth.

    python -m training.evaluate MODEL_DIR --json FILE

The text is the held-out part of the corpus (see corpus.py), which is built in --corpus first if it
is missing, or else any UTF-8 file given with --text.
"""

import argparse
import hashlib
import json
import random
import time
from datetime import date
from pathlib import Path
from statistics import NormalDist

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from training import corpus
from training.beside import weight_files
from training.recall import Outcome, bits_per_byte, make_prompt, outcomes

DEPTH_BINS = 5
WINDOW_TOKENS = 2048


def main() -> int:
    """Measures the model that the command line names and prints the table."""
    arguments = _parse()
    torch.set_num_threads(arguments.threads)
    dtype = getattr(torch, arguments.dtype)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model).backend_tokenizer
    path = arguments.text or corpus.heldout_path(arguments.corpus)
    text = path.read_text(encoding="utf-8")

    bits, text_bytes = bits_per_byte(model, tokenizer, text, arguments.windows, WINDOW_TOKENS)
    print(f"{bits:.3f} bits/byte over {text_bytes} bytes of {path.name}", flush=True)
    results: list[Outcome] = []
    for length in arguments.lengths:
        begin = time.monotonic()
        for index in range(arguments.prompts):
            rng = random.Random(f"{arguments.seed}/{length}/{index}")
            prompt = make_prompt(tokenizer, text, length, arguments.needles, rng)
            results += outcomes(model, tokenizer, length, prompt)
            seconds = time.monotonic() - begin
            print(f"length {length}: prompt {index + 1}, {seconds:.0f} s", flush=True)

    report = {
        "date": date.today().isoformat(),
        "weights_sha256": _sha256(*weight_files(arguments.model)),
        "text": path.name,
        "text_sha256": _sha256(path),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": arguments.dtype,
        "seed": arguments.seed,
        "bits_per_byte": round(bits, 4),
        "bits_per_byte_over_bytes": text_bytes,
        "prompts_per_length": arguments.prompts,
        "needles_per_prompt": arguments.needles,
        "recall": {str(length): _summary(results, length) for length in arguments.lengths},
    }
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", type=Path, metavar="MODEL_DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the report")
    parser.add_argument("--corpus", type=Path, default=Path("corpus"), metavar="DIR")
    parser.add_argument("--text", type=Path, metavar="FILE", help="measure on this text instead")
    parser.add_argument(
        "--lengths",
        type=lambda text: [int(item) for item in text.split(",")],
        default=[2048, 4096, 8192, 16384, 32768],
        metavar="N,N",
        help="tokens of the prompts",
    )
    parser.add_argument("--prompts", type=int, default=5, help="prompts of each length")
    parser.add_argument("--needles", type=int, default=20, help="needles in a prompt")
    parser.add_argument("--windows", type=int, default=64, help="windows for bits per byte")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _summary(results: list[Outcome], length: int) -> dict:
    here = [outcome for outcome in results if outcome.length == length]
    by_depth: list[list[Outcome]] = [[] for _ in range(DEPTH_BINS)]
    for outcome in here:
        by_depth[int(outcome.depth * DEPTH_BINS)].append(outcome)
    return {"all": _tally(here), "by_depth": [_tally(outcomes) for outcomes in by_depth]}


def _tally(chosen: list[Outcome]) -> dict[str, int]:
    return {"right": sum(outcome.correct for outcome in chosen), "of": len(chosen)}


def wilson_interval(right: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Bounds of the share of successes, from `right` successes in `of` > 0 independent trials."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, scale = right / of, 1 + z * z / of
    centre = (share + z * z / (2 * of)) / scale
    half = z / scale * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def table(report: dict) -> str:
    """The Markdown table of a report's recall, as the model card shows it."""

    def cell(tally: dict[str, int]) -> str:
        if not tally["of"]:
            return "-"
        low, high = (f"{100 * bound:.0f}" for bound in wilson_interval(**tally))
        return f"{100 * tally['right'] / tally['of']:.0f} % [{low}, {high}] of {tally['of']}"

    bins = [f"{100 * i // DEPTH_BINS}-{100 * (i + 1) // DEPTH_BINS} %" for i in range(DEPTH_BINS)]
    rows = [["tokens", "all depths", *bins], ["---"] * (DEPTH_BINS + 2)]
    rows += [
        [length, cell(summary["all"]), *map(cell, summary["by_depth"])]
        for length, summary in report["recall"].items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    raise SystemExit(main())
