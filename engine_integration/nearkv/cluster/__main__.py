"""The command line of `./nearkv demo cluster`."""

import argparse
import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nearkv.cluster import ClusterError
from nearkv.demo import DemoError
from nearkv.demo.files import write_file
from nearkv.demo.prompt import read_document
from nearkv.progress import Progress, progress

if TYPE_CHECKING:
    from nearkv.cluster.figures import Phase

_MODELS = Path(__file__).resolve().parents[2] / "models"
_DESCRIPTION = """\
Starts vLLM's workers, a router and a pool on this machine, and sends through
one OpenAI-compatible port what users ask who share a long beginning, turn
after turn. First workers that each keep their own cache; then as many that
prefill and decode for each other over the pool. Each time a worker is killed
when half of the turns are over, of the latter one that decodes. Prints, and
writes where asked, whether both wrote the same, what was computed, and how
long tokens took."""

_EPILOG = """\
examples:
  ./nearkv demo cluster
  ./nearkv demo cluster --users 8 --turns 6 --html cluster.html --json cluster.json

Logs of all processes stay in --logs, by default a folder that is removed at
the end, and kept where something failed.

exit status: 0 done; 1 a process failed, or the answers differ; 2 wrong usage;
130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit status."""
    options = _parse(arguments)
    try:
        return _run(options)
    except (ClusterError, DemoError) as error:
        print(f"nearkv demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nnearkv demo: interrupted", file=sys.stderr)
        return 130


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./nearkv demo cluster",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--python",
        type=Path,
        default=Path(sys.executable),
        metavar="FILE",
        help="interpreter with vLLM and nearkv[router]; ./nearkv makes an environment of its own",
    )
    add(
        "--nearkv",
        type=Path,
        default=Path("nearkv"),
        metavar="FILE",
        help="the program that has `nearkv serve` (default: on the PATH)",
    )
    add("--model", type=Path, metavar="DIR", default=_MODELS / "recall_3m", help="what to serve")
    add(
        "--file",
        type=Path,
        metavar="FILE",
        default=_MODELS / "documents" / "postgresql-high-availability.txt",
        help="plain text that the prompts are made of (default: a chapter of a manual)",
    )
    add("--prefill", type=int, default=2, metavar="N", help="workers that prefill (default: 2)")
    add("--decode", type=int, default=2, metavar="N", help="workers that decode (default: 2)")
    add(
        "--prefill-from",
        type=int,
        default=1024,
        metavar="N",
        help="tokens that are nowhere yet, from which on a prompt is prefilled by a worker that"
        " does nothing else; fewer are computed where it is decoded (default: 1024)",
    )
    add(
        "--scheduling",
        metavar="POLICY",
        help="of NearKV's scheduler, in the workers that share a pool: k_lpm, cache_aware,"
        " fair_share, rollout, slo, sarathi (default: vLLM's own order)",
    )
    add("--users", type=int, default=6, metavar="N", help="users at once (default: 6)")
    add("--turns", type=int, default=4, metavar="N", help="turns of each (default: 4)")
    add("--tokens", type=int, default=16, metavar="N", help="most tokens of an answer (16)")
    add("--shared", type=int, default=6000, metavar="N", help="characters that all share (6000)")
    add("--added", type=int, default=1200, metavar="N", help="characters a turn adds (1200)")
    add("--pool", default="512MiB", metavar="SIZE", help="size of the pool (default: 512MiB)")
    add("--seed", type=int, default=0, help="seed of the conversations (default: 0)")
    add("--no-kill", action="store_true", help="kill no worker")
    add("--logs", type=Path, metavar="DIR", help="where the processes' logs go")
    add("--json", type=Path, metavar="FILE", help="write the figures, for ./nearkv report")
    add("--html", type=Path, metavar="FILE", help="write a page with the figures and plots")
    options = parser.parse_args(arguments)
    for name in ("prefill", "prefill-from", "users", "turns", "tokens", "shared", "added"):
        if (number := getattr(options, name.replace("-", "_"))) < 1:
            parser.error(f"--{name} is {number}; it must be 1 or more")
    if options.scheduling and (wrong := _wrong_policy(options.scheduling)):
        parser.error(f"--scheduling: {wrong}")
    if options.decode < 2 and not options.no_kill:
        parser.error("one decode worker is killed: there must be another, or --no-kill")
    return options


def _wrong_policy(name: str) -> str:
    """What is wrong with a policy's name; empty: nothing."""
    from nearkv.vllm.scheduler_options import SchedulerOptions

    try:
        SchedulerOptions.parse({"nearkv_scheduler": {"policy": name}}).make_advisor(1)
    except ValueError as error:
        return str(error)
    return ""


def _run(options: argparse.Namespace) -> int:
    document = read_document(options.file)
    if len(document) < options.shared + options.added:
        raise DemoError(f"{options.file} is too short for --shared and --added")
    from nearkv.cluster import figures, page
    from nearkv.results import write_results

    with _log_folder(options.logs) as folder:
        phases = _measure(options, document, folder)
    print(figures.format_table(phases))
    texts_equal = phases[0].texts == phases[1].texts
    print(f"same texts: {'yes' if texts_equal else 'NO'}")
    if options.json:
        results = figures.make_results(*phases)
        write_file(options.json, lambda path: write_results(path, results))
    if options.html:
        text = page.render_page(phases, vars(options))
        write_file(options.html, lambda path: path.write_text(text, encoding="utf-8"))
    return 0 if texts_equal else 1


def _measure(options: argparse.Namespace, document: str, folder: Path) -> "list[Phase]":
    from nearkv.cluster import clusters
    from nearkv.cluster.conversations import make_conversations
    from nearkv.cluster.workers import Engine, scheduling_words

    engine = Engine(options.python, options.model)
    words = scheduling_words(options.scheduling) if options.scheduling else ()
    of_a_pool = dataclasses.replace(engine, options=words)
    count = options.prefill + options.decode
    starts = {
        "own caches": lambda logs: clusters.own_caches(engine, count, logs),
        "over a pool": lambda logs: clusters.over_a_pool(
            of_a_pool,
            options.prefill,
            options.decode,
            options.nearkv,
            options.pool,
            options.prefill_from,
            logs,
        ),
    }
    phases = []
    for name, start in starts.items():
        logs = folder / name.replace(" ", "-")
        logs.mkdir(parents=True, exist_ok=True)
        conversations = make_conversations(
            document, options.users, options.turns, options.shared, options.added, options.seed
        )
        with ExitStack() as stack:
            with progress(f"{name}: starting {count} workers and a router"):
                cluster = stack.enter_context(start(logs))
            killed = None if options.no_kill else cluster.workers[-1]
            with progress(f"{name}: {options.users} users, {options.turns} turns each") as work:

                def tell(text: str, work: Progress = work) -> None:
                    work.detail = text

                load = conversations, engine.model_name, options.tokens
                phases.append(clusters.measure(name, cluster, *load, killed, tell))
    return phases


@contextmanager
def _log_folder(wanted: Path | None) -> Iterator[Path]:
    """The folder of the logs; one of our own goes when no process failed."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted
        return
    folder = Path(tempfile.mkdtemp(prefix="nearkv-cluster-"))
    try:
        yield folder
    except ClusterError:
        print(f"nearkv demo: the logs are in {folder}", file=sys.stderr)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
