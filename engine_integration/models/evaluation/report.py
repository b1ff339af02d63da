"""What a measurement says of a model: the weights that it is of, and recall as counts and table."""

import hashlib
import json
from pathlib import Path
from statistics import NormalDist

from evaluation.recall import Outcome

DEPTH_BINS = 5


def weight_files(folder: Path) -> list[Path]:
    """Where the weights of a checkpoint lie, in the order in which a loader reads them."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return [folder / "model.safetensors"]
    names = json.loads(index.read_text())["weight_map"].values()
    return [folder / name for name in sorted(set(names))]


def sha256(*paths: Path) -> str:
    """Of the files' bytes, one file behind the other."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def summary(results: list[Outcome], length: int) -> dict:
    """How many needles of the prompts of a length were recalled, in all and by depth."""
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
