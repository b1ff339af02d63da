"""Measures a model folder: bits per byte, and needle recall by length and depth.

    PYTHONPATH=.. python -m evaluation MODEL_DIR --json FILE

The text is that of corpus.py, which is built in --corpus first if it is missing, or else any UTF-8
file given with --text.
"""

import argparse
import json
import random
import time
from datetime import date
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from evaluation import corpus
from evaluation.recall import Outcome, bits_per_byte, make_prompt, outcomes
from evaluation.report import sha256, summary, table, weight_files

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
        "weights_sha256": sha256(*weight_files(arguments.model)),
        "text": path.name,
        "text_sha256": sha256(path),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": arguments.dtype,
        "seed": arguments.seed,
        "bits_per_byte": round(bits, 4),
        "bits_per_byte_over_bytes": text_bytes,
        "prompts_per_length": arguments.prompts,
        "needles_per_prompt": arguments.needles,
        "recall": {str(length): summary(results, length) for length in arguments.lengths},
    }
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evaluation", description=__doc__)
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


if __name__ == "__main__":
    raise SystemExit(main())
