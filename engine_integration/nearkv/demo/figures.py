"""The demo's figures: one summary, rows of the result schema, and what is printed."""

import shutil
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nearkv.results import (
    Goal,
    Result,
    Samples,
    align_rows,
    format_number,
    git_commit,
    machine_description,
)

Summary = Mapping[str, Any]

RUN_NAMES = {
    "plain": "transformers alone",
    "exact": "NearKV, exact",
    "approximate": "NearKV, approximate",
}
"""What people read for each run."""


def summarise(
    asked: Summary, restarted: Summary | None, facts: Mapping[str, str]
) -> dict[str, Any]:
    """The keys beside the rows; the main figures are those of the exact run.

    `asked` is what the process of act 1 told, `restarted` what those of act 2 did.
    """
    runs, exact = asked["runs"], asked["runs"]["exact"]
    rates = {
        name: Samples(tuple(run["seconds"])).per_second(1).median for name, run in runs.items()
    }
    found = dict(facts) | {
        "machine": machine_description(),
        "commit": git_commit(),
        "needle": asked["needle"],
        "prompt_tokens": len(asked["prompt"]),
        "document_tokens": asked["document_tokens"],
        "texts": {name: run["text"] for name, run in runs.items()},
        "tokens_equal": exact["tokens"] == runs["plain"]["tokens"],
        "answer_right": asked["right"]["exact"],
        "right": asked["right"],
        "tokens_per_s": rates["exact"],
        "tokens_per_s_plain": rates["plain"],
        "rates": rates,
        "seconds": {name: run["seconds"] for name, run in runs.items()},
        "link_bytes_per_token": exact["link_bytes"],
        "link_bytes_per_token_baseline": exact["full_bytes"],
        "near_bytes_per_token": exact["near_bytes"],
        "full_scan_bytes_per_token": exact["full_bytes"],
        "compression_ratio": asked["compression_ratio"],
        "errors": asked["errors"],
        "model_load_s": asked["load_s"],
        "ttft_cold_s": asked["ttft_cold_s"],
        "attention": asked["attention"],
        "pages": asked["pages"],
    }
    if near := runs.get("approximate"):
        found["approximate"] = {key: near[key] for key in ("link_bytes", "near_bytes")}
        found["approximate_tokens_equal"] = near["tokens"] == runs["plain"]["tokens"]
    if restarted:
        after = restarted["after"]
        same = after["tokens"] == exact["tokens"]
        found |= {
            "ttft_warm_s": restarted["warm"]["ttft_s"],
            "ttft_after_kill_s": after["ttft_s"],
            "model_load_after_kill_s": after["load_s"],
            "tokens_before_kill": len(restarted["told"]),
            "reused_tokens": after["reused_tokens"],
            "same_answer_after_kill": same,
            "warm_after_kill": same and after["reused_tokens"] > 0,
        }
    return found


def failures(summary: Summary) -> list[str]:
    """What makes the demo end with 1."""
    checks = {
        "the exact run's tokens differ from the plain run's": summary["tokens_equal"],
        "the answer is not right": summary["answer_right"] is not False,
        "after the kill the answer was another one, or the file was of no use": summary.get(
            "warm_after_kill", True
        ),
    }
    return [text for text, is_fine in checks.items() if not is_fine]


def make_results(summary: Summary) -> list[Result]:
    """The rows that ./nearkv report reads."""
    return list(_rows(summary))


def _rows(summary: Summary) -> Iterator[Result]:
    device = summary["device"]

    def row(name: str, value: float, unit: str, **rest: Any) -> Result:
        return Result(name=f"demo/{name}", value=float(value), unit=unit, device=device, **rest)

    full_bytes = summary["full_scan_bytes_per_token"]
    moved = {"peer": "moving K and V to the host", "peer_value": full_bytes}
    scanned = {"peer": "reading all K and V in bf16", "peer_value": full_bytes}
    yield row("tokens_equal", summary["tokens_equal"], "yes=1", goal=Goal("==", 1))
    if summary["answer_right"] is not None:
        yield row("answer_right", summary["answer_right"], "yes=1", goal=Goal("==", 1))
    for name, near in _near(summary).items():
        yield row(f"link_bytes_{name}", near["link_bytes"], "bytes/token", **moved)
        yield row(f"near_bytes_{name}", near["near_bytes"], "bytes/token", **scanned)
        yield Result.of_samples(
            f"demo/decode_{name}",
            Samples(tuple(summary["seconds"][name])).per_second(1),
            "tokens/s",
            beside=Samples(tuple(summary["seconds"]["plain"])).per_second(1),
            peer="transformers, sdpa",
            device=device,
        )
    yield row("compression", summary["compression_ratio"], "bf16 bytes/byte")
    if "ttft_after_kill_s" in summary:
        cold = {"peer": "cold start", "peer_value": summary["ttft_cold_s"]}
        yield row("ttft_warm", summary["ttft_warm_s"], "s", **cold)
        goal = {"goal": Goal("<=", 0.1, of="ratio")}
        yield row("ttft_after_kill", summary["ttft_after_kill_s"], "s", **cold, **goal)
        yield row("warm_after_kill", summary["warm_after_kill"], "yes=1", goal=Goal("==", 1))


def _near(summary: Summary) -> dict[str, Summary]:
    exact = {
        "link_bytes": summary["link_bytes_per_token"],
        "near_bytes": summary["near_bytes_per_token"],
    }
    approximate = summary.get("approximate")
    return {"exact": exact} | ({"approximate": approximate} if approximate else {})


@dataclass(frozen=True)
class Panel:
    """Bars that belong together; the first is what the others stand beside."""

    title: str
    unit: str
    bars: Mapping[str, float]


def panels(summary: Summary) -> list[Panel]:
    """What page and picture show as bars."""
    near = _near(summary)
    full_mb = summary["full_scan_bytes_per_token"] / 1e6
    link_mb = {"without NearKV: K and V of the document": full_mb} | {
        RUN_NAMES[name]: run["link_bytes"] / 1e6 for name, run in near.items()
    }
    near_mb = {"all of the document, as bf16": full_mb} | {
        RUN_NAMES[name]: run["near_bytes"] / 1e6 for name, run in near.items()
    }
    rates = {RUN_NAMES[name]: rate for name, rate in summary["rates"].items()}
    shown = [
        Panel("What a link to the memory would carry, for one token", "MB", link_mb),
        Panel("Read beside the memory, for one token", "MB", near_mb),
        Panel("Speed of the answer", "tokens per second", rates),
    ]
    if "ttft_after_kill_s" in summary:
        starts = {
            "cold: reads the whole document": summary["ttft_cold_s"],
            "warm: the same process, asked again": summary["ttft_warm_s"],
            "after the kill: a new process": summary["ttft_after_kill_s"],
        }
        shown.append(Panel("From the question to the first token", "seconds", starts))
    return shown


def error_text(summary: Summary) -> str:
    """What the approximate mode promised and what came of it; empty without that mode."""
    if not (errors := summary["errors"]):
        return ""
    return (
        f"The approximate mode promises a relative error of {errors['promised']:.1%} of each "
        f"attention output. Measured on the answer's {errors['rows']:,} outputs: median "
        f"{errors['median']:.2%}, largest {errors['largest']:.1%}; {errors['within']:.1%} of them "
        "kept the promise."
    )


def format_summary(summary: Summary) -> str:
    """What the demo prints, as wide as the terminal."""
    width = max(40, min(100, shutil.get_terminal_size().columns))
    lines = ["", f"{summary['model']} read {summary['document']} ({summary['document_tokens']:,} "]
    lines[-1] += f"tokens) and was asked: {summary['question']}"
    for name, text in summary["texts"].items():
        mark = {True: "right", False: "wrong", None: "not checked"}[summary["right"][name]]
        lines += ["", f"{RUN_NAMES[name]} ({mark}):", textwrap.indent(text.strip(), "  ")]
    yes = {True: "yes", False: "NO"}
    lines += ["", f"Same tokens, exact and alone: {yes[summary['tokens_equal']]}"]
    for panel in panels(summary):
        lines += ["", f"{panel.title} ({panel.unit})"]
        rows = [(f"  {name}", format_number(value)) for name, value in panel.bars.items()]
        lines += align_rows(rows)
    if text := error_text(summary):
        lines += ["", text]
    if "warm_after_kill" in summary:
        lines += ["", restart_text(summary)]
    lines += ["", f"Device: {device_text(summary['device'])}"]
    return "\n".join(
        wrapped
        for line in lines
        for wrapped in (textwrap.wrap(line, width, subsequent_indent=_indent(line)) or [""])
    )


def device_text(device: str) -> str:
    """What played the part of the memory that computes."""
    if not device.startswith("cpu:"):
        return device
    return (
        f"{device} (threads of this processor do the memory's part; bytes are counted where a "
        "card's link would be)"
    )


def restart_text(summary: Summary) -> str:
    """What happened in act 2."""
    same = "the same answer" if summary["same_answer_after_kill"] else "ANOTHER answer"
    return (
        f"The process was killed after {summary['tokens_before_kill']} tokens of its answer. A new "
        f"one took {summary['reused_tokens']:,} tokens from the file, read the rest, and gave "
        f"{same}. Each process loads the model first, which is not part of these times "
        f"({summary['model_load_s']:.1f} s and {summary['model_load_after_kill_s']:.1f} s)."
    )


def _indent(line: str) -> str:
    return "  " if line.startswith("  ") else ""
