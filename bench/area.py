"""Counts LUTs, DSPs and logic depth of the RTL by Yosys, beside the committed counts."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Context
from nearkv.results import Goal, Result

_ROOT = Path(__file__).parents[1]
_BASELINE = Path(__file__).parent / "baselines" / "area.json"
# A block may take 2 % more than committed; a path between registers, so many LUTs.
_AREA = Goal("<=", 1.02, of="ratio")
_LEVELS = Goal("<=", 4)


def run(context: Context) -> Iterator[Result]:
    """Synthesises the small blocks, or with --long all, which takes hours."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "area.json"
        command = [sys.executable, "-B", str(_ROOT / "rtl" / "syn" / "synthesise.py")]
        command += ["--family", "xcup", "--json", str(file)]
        context.progress("synthesising")
        done = subprocess.run(
            command if context.long else [*command, "--gate"], stdout=sys.stderr, check=False
        )
        if done.returncode:
            raise RuntimeError(f"synthesis failed with exit status {done.returncode}")
        measured = json.loads(file.read_text(encoding="utf-8"))
    committed = json.loads(_BASELINE.read_text(encoding="utf-8"))["blocks"]
    for name, figures in measured.items():
        yield from _results(name, figures["xcup"], committed.get(name, {}).get("xcup"))


def _results(
    name: str, figures: dict[str, Any], committed: dict[str, Any] | None
) -> Iterator[Result]:
    """LUTs with those of memories, DSPs where there are any, and the deepest path."""
    for unit, of_area in (("LUT", ("lut", "lut_ram")), ("DSP", ("dsp",))):
        value = sum(figures["area"][part] for part in of_area)
        was = sum(committed["area"][part] for part in of_area) if committed else 0
        if value or was:
            yield Result(
                name=f"area/{name}/{unit.lower()}",
                value=value,
                unit=unit,
                peer="committed" if was else None,
                peer_value=was if was else None,
                goal=_AREA if was else None,
                device="rtl:",
            )
    path = figures["deepest"]
    yield Result(
        name=f"area/{name}/levels",
        value=path["levels"],
        unit="levels",
        goal=_LEVELS,
        device="rtl:",
        extra={"from": path["start"], "to": path["end"]},
    )
