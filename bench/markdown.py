"""Results files as one page of Markdown: a section for each file, a table for each unit."""

from collections.abc import Mapping, Sequence

from bench.result_file import ResultFile
from nearkv.results import Result, format_number

_HEAD = """\
# Results

This page is generated from the results files that it links to; do not edit it. A peer is what a
figure stands beside, and `ratio` is the value divided by the peer's value. A goal is what the
project asked of the value or, where it says so, of the ratio. Peers are compared
[by these rules](README.md#a-fair-comparison).
"""
_OTHER_COMMANDS = {"demo": "./nearkv demo", "fault": "./nearkv test fault"}
_ALIGNED_LEFT = {"figure", "peer", "goal", "met"}


def render_markdown(files: Mapping[str, ResultFile]) -> str:
    """The page for results files by their links, a section for each in their order.

    The keys `title`, `command` and `note` of a file's summary, where it has them, say what it is
    called, what writes it, and what a reader has to know about it.
    """
    return "\n".join([_HEAD, *(_section(link, file) for link, file in files.items())])


def _section(link: str, file: ResultFile) -> str:
    by_unit: dict[str, list[Result]] = {}
    for result in file.results:
        by_unit.setdefault(result.unit, []).append(result)
    command = _command(file)
    judged = [result.met for result in file.results if result.met is not None]
    facts = {
        "Date": file.date,
        "Machine": "; ".join(sorted({result.machine for result in file.results})),
        "Commit": "; ".join(sorted({result.commit for result in file.results})),
        "Command": f"`{command}`",
        "Goals": f"{sum(judged)} of {len(judged)} met" if judged else "none set",
        "File": f"[`{link}`]({link})",
    }
    if note := file.summary.get("note"):
        facts["Note"] = str(note)
    lines = [f"## {file.summary.get('title', command)}", ""]
    lines += [f"- {name}: {text}" for name, text in facts.items()]
    for unit, results in by_unit.items():
        lines += ["", *_table(unit, results)]
    return "\n".join([*lines, ""])


def _command(file: ResultFile) -> str:
    if command := file.summary.get("command"):
        return str(command)
    groups = dict.fromkeys(result.name.partition("/")[0] for result in file.results)
    benches = file.summary.get("benches", list(groups))
    known = [_OTHER_COMMANDS[name] for name in benches if name in _OTHER_COMMANDS]
    return known[0] if known else f"./nearkv bench {' '.join(benches)}"


def _table(unit: str, results: Sequence[Result]) -> list[str]:
    """One table; a column that would be empty is left out."""
    rows = [_row(unit, result) for result in results]
    heads = [head for head in rows[0] if any(row[head] for row in rows)]
    ruler = [":--" if head in _ALIGNED_LEFT else "--:" for head in heads]
    cells = [heads, ruler, *([row[head] for head in heads] for row in rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def _row(unit: str, result: Result) -> dict[str, str]:
    def number(value: float | None) -> str:
        return "" if value is None else format_number(value)

    cells = {
        "figure": f"`{result.name}`",
        f"value ({unit})": number(result.value),
        f"least ({unit})": number(result.minimum),
        f"most ({unit})": number(result.maximum),
        "tried": number(result.extra.get("tried")),
        "peer": result.peer or "",
        f"peer ({unit})": number(result.peer_value),
        "ratio": number(result.ratio),
        "goal": str(result.goal or ""),
        "met": {None: "", True: "met", False: "missed"}[result.met],
    }
    return {head.replace("|", "\\|"): cell.replace("|", "\\|") for head, cell in cells.items()}
