"""The command line of `./nearkv demo`.

Standard library only, but for the processes that have the model: --help works before anything is
installed.
"""

import argparse
import os
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearkv.demo import DemoError
from nearkv.demo.files import write_file
from nearkv.demo.processes import ModelProcess, pull_the_plug, scratch_folder
from nearkv.demo.prompt import read_document
from nearkv.demo.question import ANSWER, QUESTION, built_in_document
from nearkv.real_models import MODELS, ModelError, fetch_model
from nearkv.usage import exit_if_usage_is_all

_SHIPPED = Path(__file__).resolve().parents[2] / "models" / "recall_3m"
_MODEL = "smollm2"
_NEED_BYTES = 1 << 30
_DESCRIPTION = """\
Asks a language model a question about a document of 7,000 tokens, in three acts.
1. Ask: the same answer by transformers alone and with NearKV, where the memory
   that holds the document attends to it by itself, exactly and approximately.
2. Pull the plug: the process is killed while it writes the answer. A new one
   finds what the first one had read in a file, and goes on.
3. See: a page for the browser and a picture of what was measured."""

_EPILOG = """\
examples:
  ./nearkv demo
  ./nearkv demo --file book.txt --question "Who wrote the letter?" --answer Anna
  ./nearkv demo --model HuggingFaceTB/SmolLM2-360M-Instruct --json demo.json

The model's memory of a document is called its KV cache: a key and a value for
each token, layer and head. All runs hold it in bf16 and compute in float32.

exit status: 0 done; 1 the input cannot be used, an exact run differs from the
plain one, or the answer is not right; 2 wrong usage; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit status."""
    options = _parse(arguments)
    exit_if_usage_is_all()
    try:
        return _run(options)
    except DemoError as error:
        print(f"nearkv demo: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # The reader of the output has enough of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
    add("--file", type=Path, help="plain text in UTF-8 (default: the log of a lighthouse)")
    add("--question", help="what to ask about it (default: one about the lighthouse)")
    add("--answer", metavar="TEXT", help="what a right answer holds, so that it can be checked")
    add(
        "--model",
        metavar="DIR_OR_ID",
        help="folder of a causal language model in Hugging Face layout, or its name on the hub "
        f"(default: {MODELS[_MODEL].title}, which is fetched once; the shipped recall_3m, which "
        "can only recall a line such as @key=12345; serves where that fails)",
    )
    add("--device", metavar="URI", default="cpu:", help="NearKV device (default: cpu:)")
    add(
        "--error",
        type=_share,
        default=0.05,
        metavar="E",
        help="relative error that the approximate mode promises (default: 0.05)",
    )
    add(
        "--tokens",
        type=_count,
        default=32,
        metavar="N",
        help="longest answer, in tokens (default: 32)",
    )
    add(
        "--prompt-tokens",
        type=_count,
        metavar="N",
        help="longest prompt; a longer document is cut (default: what the model takes)",
    )
    add("--ask-only", action="store_true", help="act 1 alone: nothing is killed, no page")
    add("--json", type=Path, metavar="FILE", help="write all figures, for ./nearkv report")
    add(
        "--html",
        type=Path,
        metavar="FILE",
        default=Path("results/demo.html"),
        help="the page (default: results/demo.html)",
    )
    add(
        "--png",
        type=Path,
        metavar="FILE",
        default=Path("results/demo.png"),
        help="the picture (default: results/demo.png)",
    )
    options = parser.parse_args(arguments)
    if options.answer and not options.question:
        parser.error("--answer needs --question")
    if options.file and not options.question and options.model != str(_SHIPPED):
        parser.error("--file needs --question")
    return options


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {1 << 20}")
    return int(text)


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and up to 1")
    return number


def _run(options: argparse.Namespace) -> int:
    start_s = time.monotonic()
    file = options.file or built_in_document()
    read_document(file)
    model, note = _choose_model(options.model)
    if note:
        print(f"nearkv demo: {note}", file=sys.stderr)
    is_shipped = Path(model).resolve() == _SHIPPED
    question = None if is_shipped else _question(options)
    common = {"model": model, "device": options.device, "steps": options.tokens}
    request = common | {
        "act": "ask",
        "file": str(file),
        "question": question,
        "error": options.error,
        "most_tokens": options.prompt_tokens,
    }
    restarted = None
    with scratch_folder(0 if options.ask_only else _NEED_BYTES) as folder:
        store = None if options.ask_only else str(folder / "cache")
        with ModelProcess(**request, store=store) as worker:
            asked = worker.hear()["asked"]
            if asked["cut"]:
                print("nearkv demo: the document is longer than fits and is cut", file=sys.stderr)
            if store:
                answer = asked["runs"]["exact"]["tokens"]
                warm, told = pull_the_plug(worker, answer)
        if store:
            known = {name: asked[name] for name in ("prompt", "ends")}
            with ModelProcess(**common, **known, act="resume", store=store, told=told) as worker:
                restarted = {"warm": warm, "told": told, "after": worker.hear()}

    # Only here: they need packages that --help does without.
    from nearkv.demo import figures

    facts = {
        "model": MODELS[_MODEL].title if options.model is None and not note else Path(model).name,
        "document": file.name,
        "question": question["text"] if question else f"how does {asked['asked']} go on?",
        "device": options.device,
        "note": note,
    }
    summary = figures.summarise(asked, restarted, facts)
    summary["setup_s"], summary["build_s"] = _front_door_s("SETUP"), _front_door_s("BUILD")
    summary["run_s"] = time.monotonic() - start_s
    _write(options, summary)
    print(figures.format_summary(summary))
    failures = figures.failures(summary)
    for failure in failures:
        print(f"nearkv demo: {failure}", file=sys.stderr)
    return int(bool(failures))


def _choose_model(named: str | None) -> tuple[str, str]:
    """What to load, and what there is to say about it."""
    if named is not None:
        return named, ""
    try:
        return str(fetch_model(_MODEL)), ""
    except ModelError as error:
        if not _SHIPPED.is_dir():
            raise DemoError(f"{error}; or name a model of your own with --model") from error
        return str(_SHIPPED), (
            f"{error}. The small shipped model recall_3m serves instead. It cannot answer "
            "questions: it finds a line such as @key=12345; that is planted in the document"
        )


def _question(options: argparse.Namespace) -> dict[str, Any]:
    if options.question:
        return {"text": options.question, "answer": options.answer}
    return {"text": QUESTION, "answer": ANSWER}


def _front_door_s(what: str) -> float | None:
    """Seconds that ./nearkv took before this; None where it did not start it."""
    try:
        return float(os.environ[f"NEARKV_{what}_S"])
    except (KeyError, ValueError):
        return None


def _write(options: argparse.Namespace, summary: dict[str, Any]) -> None:
    from nearkv.demo import figures
    from nearkv.results import write_results

    if options.json:
        rows = figures.make_results(summary)
        write_file(options.json, lambda path: write_results(path, rows, summary))
    if options.ask_only:
        return
    from nearkv.demo import page, picture

    write_file(
        options.html, lambda path: path.write_text(page.render_page(summary), encoding="utf-8")
    )
    write_file(options.png, lambda path: picture.draw(summary).save(path))
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if has_display and sys.stdout.isatty():
        webbrowser.open(options.html.resolve().as_uri())


if __name__ == "__main__":
    sys.exit(main())
