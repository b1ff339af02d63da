"""The table of faults: what was tried on the tier, and what came of it.

Tests of faults print a line each (tests/support/fault_report.hpp); ctest keeps them.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv.results import Goal, Result, align_rows, write_results

RESULTS = Path("results") / "fault.json"
_TITLE = "Faults that pools, stores and daemons were put through"


@dataclass(frozen=True)
class Fault:
    """How often one fault was tried, how often all was well, and how many objects were lost."""

    name: str
    tried: int
    survived: int
    lost_objects: int

    def to_result(self) -> Result:
        """The result in the project's schema: objects lost, of which there are to be none."""
        slug = re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_")
        return Result(
            name=f"fault/{slug}",
            value=self.lost_objects,
            unit="objects lost",
            goal=Goal("<=", 0),
            device="host",
            extra={"fault": self.name, "tried": self.tried, "survived": self.survived},
        )


def read_faults(junit: Path) -> list[Fault]:
    """The faults that the tests of a run reported, in its order."""
    faults = []
    for case in ElementTree.parse(junit).iter("testcase"):
        for line in re.findall(r"^FAULT (\{.*\})$", case.findtext("system-out", ""), re.MULTILINE):
            row = json.loads(line)
            faults.append(Fault(row["fault"], row["tried"], row["survived"], row["lost_objects"]))
    return faults


def format_faults(faults: Sequence[Fault]) -> str:
    """The table for people."""
    rows = [("fault", "tried", "survived", "lost")]
    rows += [(f.name, f"{f.tried:,}", f"{f.survived:,}", f"{f.lost_objects:,}") for f in faults]
    return "\n".join(align_rows(rows))


def record(junit: Path, options: dict[str, object]) -> list[str]:
    """Writes the results file if any faults were tried; the lines to close the run with."""
    faults = read_faults(junit)
    if not faults:
        return []
    summary = {"title": _TITLE, "command": "./nearkv test", **options}
    write_results(RESULTS, [fault.to_result() for fault in faults], summary)
    return [*format_faults(faults).splitlines(), f"written: {RESULTS}"]
