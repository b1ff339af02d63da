"""The command line of `./nearkv demo`.

Standard library only up to the run itself: --help works before anything is installed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nearkv.demo import DemoError
from nearkv.demo.files import write_file
from nearkv.demo.progress import progress
from nearkv.demo.prompt import MEANT_TOKENS, draw_needle, make_prompt, read_document

_MODELS = Path(__file__).resolve().parents[2] / "models"
_DESCRIPTION = """\
Plants a needle, a line @key=12345; at random, in a long document, lets a
language model read it, and asks for it at the end. Once plainly, with the KV
cache on the host; then with the old part of the cache in a NearKV device,
where queries go down and partial outputs come back. Prints, and writes where
asked, what both wrote, and the bytes and the time that each took."""

_EPILOG = """\
examples:
  ./nearkv demo
  ./nearkv demo --file book.txt --depth 0.1 --html demo.html --json demo.json
  ./nearkv demo --device model: --prompt-tokens 1000 --tokens 8

Both runs share one reading of the prompt, and hold K and V in bf16. Bytes per
token are those of decoding. The plain run is the judge of the tokens only in
mode dense; the other modes trade exactness for bytes.

exit status: 0 done; 1 the input cannot be used, or an exact run differs from
the plain one; 2 wrong usage; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit status."""
    options = _parse(arguments)
    try:
        return _run(options)
    except DemoError as error:
        print(f"nearkv demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nnearkv demo: interrupted", file=sys.stderr)
        return 130


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./nearkv demo",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--file",
        type=Path,
        metavar="FILE",
        default=_MODELS / "documents" / "postgresql-high-availability.txt",
        help=f"plain text in UTF-8, best of {MEANT_TOKENS:,} tokens or more (default: a chapter "
        "of the PostgreSQL manual)",
    )
    add(
        "--model",
        type=Path,
        metavar="DIR",
        default=_MODELS / "recall_3m",
        help="folder of a causal language model in Hugging Face layout; one that has not learnt "
        "to recall such lines will not find the needle (default: recall_3m, shipped)",
    )
    add(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="what the model computes in; in bfloat16 rounding makes near ties, which two exact "
        "runs may break differently (default: float32)",
    )
    add("--device", metavar="URI", default="cpu:", help="NearKV device (default: cpu:)")
    add(
        "--mode",
        choices=("dense", "tail", "bounded"),
        default="dense",
        help="how the device attends in the run that the summary is about: dense reads all and is "
        "exact; tail reads the best tokens exactly, the others at low precision; bounded reads "
        "what a given error takes. On cpu: the other modes are run as well (default: dense)",
    )
    add(
        "--top-k",
        type=_integer(1, 4096),
        default=64,
        metavar="K",
        help="tokens that mode tail reads exactly, per query (default: 64)",
    )
    add(
        "--error",
        type=_number(0, 1, open_start=True),
        default=0.05,
        metavar="E",
        help="relative error of the output that mode bounded keeps (default: 0.05)",
    )
    add(
        "--tokens",
        type=_integer(1, 4096),
        default=32,
        metavar="N",
        help="tokens to generate (default: 32)",
    )
    add(
        "--prompt-tokens",
        type=_integer(1, 1 << 20),
        metavar="N",
        help="longest prompt; a longer document is cut (default: what the model takes)",
    )
    add(
        "--depth",
        type=_number(0, 1),
        default=0.5,
        metavar="D",
        help="where in the document the needle goes, 0 start to 1 end (default: 0.5)",
    )
    add("--seed", type=int, default=0, help="seed of the needle (default: 0)")
    add("--json", type=Path, metavar="FILE", help="write the figures, for ./nearkv report")
    add("--html", type=Path, metavar="FILE", help="write a page with the texts, figures and plots")
    return parser.parse_args(arguments)


def _integer(least: int, most: int):
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
        return int(text)

    return parse


def _number(least: float, most: float, open_start: bool = False):
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number <= most or (open_start and number == least):
            above = "above " if open_start else "from "
            raise argparse.ArgumentTypeError(f"{text!r} is no number {above}{least} to {most}")
        return number

    return parse


def _run(options: argparse.Namespace) -> int:
    document = read_document(options.file)
    with progress("loading the libraries and the model"):
        # Only here, so that wrong usage and unreadable files are told at once.
        from nearkv.core import AttendMode, Error
        from nearkv.demo import figures, page, runs
        from nearkv.results import git_commit, machine_description, write_results

        model, tokenizer = runs.load_model(options.model, options.dtype)
    takes = getattr(model.config, "max_position_embeddings", None) or 1 << 20
    most = min(takes - options.tokens, options.prompt_tokens or takes)
    if most < 1:
        raise DemoError(f"the model takes {takes} tokens; ask for fewer with --tokens")
    needle = draw_needle(document, options.seed)
    prompt = make_prompt(tokenizer, document, needle, options.depth, most)
    _note_length(len(prompt.tokens), prompt.cut)
    modes = runs.make_modes(
        AttendMode[options.mode.upper()],
        others=options.device.startswith("cpu:"),
        top_k=options.top_k,
        error=options.error,
    )
    try:
        comparison = runs.compare(
            model, prompt.tokens, options.device, modes, options.tokens, progress
        )
    except (Error, ValueError) as error:
        raise DemoError(str(error)) from error
    texts = {
        run.name: tokenizer.decode(run.tokens, clean_up_tokenization_spaces=False)
        for run in (comparison.plain, *comparison.near)
    }
    summary = figures.summarise(comparison, texts, needle)
    print(figures.format_summary(summary, comparison, options.device))
    facts = {
        "document": f"{options.file.name}, {len(prompt.tokens):,} tokens of prompt"
        + (", cut to fit" if prompt.cut else ""),
        "needle": f"{needle.line} at {prompt.needle_at:.0%} of the prompt",
        "same tokens": "yes" if summary["tokens_equal"] else "no",
        "needle found": "yes" if summary["needle_found"] else "no",
        "compression": f"{summary['compression_ratio']:.2f} bf16 bytes per byte of page",
        "model": f"{options.model.name}, {options.dtype}",
        "device": f"{options.device}, mode {options.mode}",
        "machine": machine_description(),
        "commit": git_commit(),
    }
    if options.json:
        rows = figures.make_results(comparison, texts, needle, options.device)
        write_file(options.json, lambda path: write_results(path, rows, summary))
    if options.html:
        text = page.render_page(summary, comparison, facts)
        write_file(options.html, lambda path: path.write_text(text, encoding="utf-8"))
    failed = options.mode == "dense" and not summary["tokens_equal"]
    if failed:
        print("nearkv demo: the exact run's tokens differ from the plain run's", file=sys.stderr)
    return int(failed)


def _note_length(tokens: int, cut: bool) -> None:
    if cut:
        print(f"nearkv demo: the document is cut: {tokens:,} tokens of prompt", file=sys.stderr)
    if tokens < MEANT_TOKENS:
        print(
            f"nearkv demo: {tokens:,} tokens of prompt; from {MEANT_TOKENS:,} on the figures show "
            "what long contexts cost",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
