"""Runs benches by name, prints their table and writes their results file."""

import argparse
import ast
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bench
from bench import Context, Skipped
from bench.curves import curve_table, curves_of
from nearkv.results import Result, align_rows, format_number, write_results
from nearkv.usage import exit_if_usage_is_all

_DESCRIPTION = """\
Measures NearKV on this machine. Each figure stands beside another program that
does the same work, where there is one, and beside the goal that the project set
itself. Without a NAME it lists the benches."""

_EPILOG = """\
examples:
  ./nearkv bench                             list the benches
  ./nearkv bench memory --json memory.json   run one and keep its results
  ./nearkv report memory.json                turn results into a page with plots

Ctrl-C stops the bench and keeps what it has measured. The end of a run names
what could not be measured because this machine lacks something.

exit status:
  0    every bench ended, whether it met its goals or not
  1    a bench failed
  2    the call was wrong
  130  the run was interrupted"""


def list_benches() -> dict[str, str]:
    """Every module here that has a `run`, with its docstring's first line; imports none of them."""
    benches = {}
    for module in pkgutil.iter_modules(bench.__path__):
        if module.ispkg:
            continue
        source = Path(module.module_finder.path) / f"{module.name}.py"
        tree = ast.parse(source.read_text(encoding="utf-8"))
        if any(isinstance(part, ast.FunctionDef) and part.name == "run" for part in tree.body):
            benches[module.name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return benches


@dataclass
class Outcome:
    """What a run of benches came to."""

    results: list[Result] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Benches, and parts of them, that could not be measured here, and why."""
    status: int = 0


def run_benches(names: Sequence[str], context: Context) -> Outcome:
    """Runs benches in turn.

    A bench that raises is reported and the next one runs; an interrupt ends them all.
    """
    outcome = Outcome()
    for index, name in enumerate(names, start=1):
        print(f"[{index}/{len(names)}] {name}", file=sys.stderr, flush=True)
        try:
            for result in importlib.import_module(f"bench.{name}").run(context):
                outcome.results.append(result)
        except KeyboardInterrupt:
            print(f"interrupted in {name}; keeping {len(outcome.results)} results", file=sys.stderr)
            outcome.status = 130
            break
        except Skipped as skipped:
            outcome.skipped += [f"{name}: {missing}" for missing in skipped.args]
        except Exception:
            traceback.print_exc()
            print(f"bench {name} failed", file=sys.stderr)
            outcome.status = 1
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of `./nearkv bench`."""
    parser = argparse.ArgumentParser(
        prog="./nearkv bench",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="bench to run; see the list")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="results file to write (default: results/NAMES.json in the current folder)",
    )
    parser.add_argument(
        "--device",
        metavar="URI",
        default=os.environ.get("NEARKV_DEVICE", "cpu:"),
        help="device to measure (default: $NEARKV_DEVICE, else cpu:)",
    )
    parser.add_argument(
        "--long",
        action="store_true",
        help="use larger sizes and repeat more often; this takes hours",
    )
    parser.add_argument(
        "--tiny", action="store_true", help="show only that a bench runs; its figures mean nothing"
    )
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="folder of request traces, for the benches that replay them",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="checkpoint in Hugging Face's layout, for quality (default: SmolLM2 and Gemma 3)",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="install the programs that a bench compares with into build/peers",
    )
    options = parser.parse_args(arguments)

    benches = list_benches()
    if not options.names:
        print(_list_text(benches))
        return 0
    if unknown := [name for name in options.names if name not in benches]:
        parser.error(f"no bench {', '.join(unknown)}; there are: {', '.join(benches)}")

    exit_if_usage_is_all()
    context = Context(
        options.device,
        options.long,
        options.tiny,
        options.traces,
        options.model,
        install_peers=options.peers,
    )
    outcome = run_benches(options.names, context)
    results = outcome.results
    print(format_table(results))
    for title, members in curves_of(results).items():
        if table := curve_table(title, members):
            print(f"\n{table.as_text()}")
    if results:
        path = options.json or Path("results") / f"{'+'.join(options.names)}.json"
        summary: dict[str, object] = {"benches": options.names}
        if len(options.names) == 1:
            summary["title"] = benches[options.names[0]].rstrip(".")
        write_results(path, results, summary)
        print(f"\n{_goals_text(results)}\nwritten: {path}")
    for skipped in outcome.skipped:
        print(f"not measured: {skipped}")
    return outcome.status


def format_table(results: Sequence[Result]) -> str:
    """The results as aligned text, one line each, with a head."""
    left_aligned = {"name", "unit", "peer", "goal", "met"}
    rows = [_table_row(result) for result in results]
    if not rows:
        return "no results"
    heads = list(rows[0])
    left = [place for place, head in enumerate(heads) if head in left_aligned]
    return "\n".join(align_rows([heads, *(list(row.values()) for row in rows)], left))


def _table_row(result: Result) -> dict[str, str]:
    spread = result.minimum is not None and result.maximum is not None
    return {
        "name": result.name,
        "value": format_number(result.value),
        "unit": result.unit,
        "min": format_number(result.minimum) if spread else "",
        "max": format_number(result.maximum) if spread else "",
        "peer value": "" if result.peer_value is None else format_number(result.peer_value),
        "peer": result.peer or "",
        "ratio": "" if result.ratio is None else format_number(result.ratio),
        "goal": str(result.goal) if result.goal else "",
        "met": {None: "", True: "met", False: "MISSED"}[result.met],
    }


def _list_text(benches: Mapping[str, str]) -> str:
    width = max(map(len, benches), default=0)
    lines = [f"  {name.ljust(width)}  {line}" for name, line in benches.items()]
    return "\n".join(["benches (./nearkv bench NAME...):", *lines])


def _goals_text(results: Sequence[Result]) -> str:
    judged = [result for result in results if result.met is not None]
    if not judged:
        return "no goals are set for these"
    missed = [result.name for result in judged if not result.met]
    text = f"{len(judged) - len(missed)} of {len(judged)} goals met"
    return f"{text}; missed: {', '.join(missed)}" if missed else text


if __name__ == "__main__":
    sys.exit(main())
