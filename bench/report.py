"""Turns results files into one HTML page that needs no network, or into a page of Markdown.

Each group of results (the first word of their names) in one unit gets a plot: value beside peer,
whiskers from min to max, the goal as a mark. Results with a curve in `extra` share the plots that
they name, a line each, with a table below where all lines have the same x.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from os.path import relpath
from pathlib import Path
from typing import Any

from bench.curves import curve_table, curves_of, line_plot
from bench.markdown import render_markdown
from bench.result_file import ResultFile, read_results
from nearkv.html import html_page
from nearkv.results import Result, ResultError, format_number
from nearkv.usage import exit_if_usage_is_all

_DESCRIPTION = """\
Turns results files (of ./nearkv bench, the demo and tests) into one HTML page
with a table and plots. The page holds all it needs and loads nothing. A page
whose name ends in .md is written in Markdown, with tables only."""

_EPILOG = """\
examples:
  ./nearkv report                            everything under results/
  ./nearkv report a.json b.json -o page.html
  ./nearkv report bench/results/*.json -o bench/RESULTS.md

exit status: 0 written; 1 a file cannot be read, or is not a results file;
2 wrong usage."""

_STYLE = """\
.wide { overflow-x: auto; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 600; }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #d0d7de; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.met { color: #1a7f37; } .missed { color: #cf222e; font-weight: 600; }"""

_BODY = """\
<dl>{facts}</dl>
<h2>Figures</h2>
<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>
{rows}
</tbody></table></div>
{plots}"""

_HEADS = ("name", "value", "unit", "min", "max", "peer value", "peer", "ratio", "goal", "met")
_NUMBERS = {"value", "min", "max", "peer value", "ratio"}
_ROW_PIXELS = 46


def render_page(files: Sequence[ResultFile]) -> str:
    """The whole page for the results of some files, in their order."""
    results = [result for file in files for result in file.results]
    scripts, plots = _render_plots(results)
    body = _BODY.format(
        facts=_render_facts(files, results),
        heads="".join(f'<th class="{_column_class(head)}">{head}</th>' for head in _HEADS),
        rows="\n".join(_render_row(result) for result in results),
        plots=plots,
    )
    return html_page("NearKV results", body, style=_STYLE, scripts=scripts)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of `./nearkv report`."""
    parser = argparse.ArgumentParser(
        prog="./nearkv report",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="results file (default: results/*.json in the current folder)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PAGE",
        default=Path("results/report.html"),
        help="page to write, .html or .md (default: results/report.html)",
    )
    options = parser.parse_args(arguments)
    paths = options.files or sorted(Path("results").glob("*.json"))
    if not paths:
        parser.error("no results here; measure first: ./nearkv bench memory")
    exit_if_usage_is_all()
    try:
        files = {path: read_results(path) for path in paths}
    except (ResultError, OSError) as error:
        print(f"./nearkv report: {error}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.output.suffix == ".md":
        folder = options.output.parent
        page = render_markdown({relpath(path, folder): file for path, file in files.items()})
    else:
        page = render_page(list(files.values()))
    options.output.write_text(page, encoding="utf-8")
    count = sum(len(file.results) for file in files.values())
    print(f"written: {options.output} ({count} results)")
    return 0


def _render_facts(files: Sequence[ResultFile], results: Sequence[Result]) -> str:
    judged = [result.met for result in results if result.met is not None]
    facts = {
        "machine": sorted({result.machine for result in results}),
        "commit": sorted({result.commit for result in results}),
        "device": sorted({result.device for result in results}),
        "date": sorted({file.date for file in files}),
        "goals": [f"{sum(judged)} of {len(judged)} met"],
    }
    return "".join(
        f"<dt>{name}</dt><dd>{'<br>'.join(map(escape, texts))}</dd>"
        for name, texts in facts.items()
    )


def _render_row(result: Result) -> str:
    numbers = (result.value, result.minimum, result.maximum, result.peer_value, result.ratio)
    value, low, high, peer_value, ratio = (
        "" if number is None else format_number(number) for number in numbers
    )
    goal = str(result.goal) if result.goal else ""
    met = {None: "", True: "met", False: "missed"}[result.met]
    cells = (result.name, value, result.unit, low, high, peer_value, result.peer or "", ratio, goal)
    named = zip(_HEADS, (*cells, met), strict=True)
    columns = [
        f'<td class="{met if head == "met" else _column_class(head)}">{escape(text)}</td>'
        for head, text in named
    ]
    return f"<tr>{''.join(columns)}</tr>"


def _column_class(head: str) -> str:
    return "number" if head in _NUMBERS else ""


def _render_plots(results: Sequence[Result]) -> tuple[str, str]:
    """The scripts for the page's head, and the plots' figures for its body."""
    if not results:
        return "", ""
    from bokeh.embed import components
    from bokeh.resources import Resources

    def group_and_unit(result: Result) -> tuple[str, str]:
        return result.name.partition("/")[0], result.unit

    ordered = sorted(
        (result for result in results if "curve" not in result.extra), key=group_and_unit
    )
    plots = {
        f"{group}, {unit}": _plot(list(members), unit)
        for (group, unit), members in groupby(ordered, key=group_and_unit)
    }
    curves = curves_of(results)
    plots |= {title: line_plot(members) for title, members in curves.items()}
    script, divisions = components(plots)
    figures = [
        f'<h2>{escape(title)}</h2>\n<figure class="plot">{division}</figure>'
        + _render_curve_table(title, curves.get(title, []))
        for title, division in divisions.items()
    ]
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    return library, "\n".join([*figures, script])


def _render_curve_table(title: str, results: Sequence[Result]) -> str:
    table = curve_table(title, results) if results else None
    if table is None:
        return ""
    heads = "".join(f'<th class="number">{escape(head)}</th>' for head in table.heads[1:])
    rows = "".join(
        f"<tr><td>{escape(line)}</td>"
        + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
        for line, *cells in table.rows
    )
    return (
        f'\n<div class="wide"><table><thead><tr><th>{escape(table.heads[0])}</th>{heads}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>"
    )


def _plot(results: Sequence[Result], unit: str) -> Any:
    """One plot: a row for each result, from the top down, its value above its peer."""
    from bokeh.models import HoverTool
    from bokeh.plotting import figure

    rows = [_plot_row(-index, result) for index, result in enumerate(results)]
    plot = figure(
        height=110 + _ROW_PIXELS * len(rows),
        y_range=(0.5 - len(rows), 0.5),
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
        x_axis_label=unit,
    )
    plot.x_range.start = min(0.0, *(row["low"] for row in rows))
    plot.xaxis.formatter.use_scientific = False
    plot.ygrid.grid_line_color = None
    plot.yaxis.ticker = [row["y"] for row in rows]
    plot.yaxis.major_label_overrides = {row["y"]: row["label"] for row in rows}

    for name, prefix, offset, color in (
        ("NearKV", "", 0.2, "#0969da"),
        ("peer", "peer_", -0.2, "#afb8c1"),
    ):
        shown = [row for row in rows if row[f"{prefix}value"] is not None]
        if not shown:
            continue
        source = _columns(shown, offset)
        bar = plot.hbar(
            y="y",
            right=f"{prefix}value",
            height=0.36,
            color=color,
            legend_label=name,
            source=source,
        )
        whisker = {"x0": f"{prefix}low", "x1": f"{prefix}high", "y0": "y", "y1": "y"}
        plot.segment(**whisker, color="#1b1f24", source=source)
        plot.add_tools(HoverTool(renderers=[bar], tooltips=[("", "@hover")]))
    if goals := [row for row in rows if row["goal_at"] is not None]:
        plot.scatter(
            x="goal_at",
            y="y",
            marker="dash",
            angle=math.pi / 2,
            size=_ROW_PIXELS * 0.45,
            line_width=3,
            color="#cf222e",
            legend_label="goal",
            source=_columns(goals, 0.2),
        )
    plot.legend.orientation = "horizontal"
    plot.add_layout(plot.legend[0], "above")
    return plot


def _plot_row(y: int, result: Result) -> dict[str, Any]:
    goal_at = None
    if result.goal:
        of_ratio = result.goal.of == "ratio" and result.peer_value is not None
        goal_at = result.goal.value * (result.peer_value if of_ratio else 1)
    return {
        "y": y,
        "label": result.name.partition("/")[2] or result.name,
        "value": result.value,
        "low": result.value if result.minimum is None else result.minimum,
        "high": result.value if result.maximum is None else result.maximum,
        "peer_value": result.peer_value,
        "peer_low": result.extra.get("peer_min", result.peer_value),
        "peer_high": result.extra.get("peer_max", result.peer_value),
        "goal_at": goal_at,
        "hover": _hover_text(result),
    }


def _columns(rows: Sequence[Mapping[str, Any]], y_offset: float) -> dict[str, list[Any]]:
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    return columns | {"y": [y + y_offset for y in columns["y"]]}


def _hover_text(result: Result) -> str:
    text = f"{result.name}: {format_number(result.value)} {result.unit}"
    if result.peer_value is not None:
        text += f"; {result.peer}: {format_number(result.peer_value)}"
    return text + (f"; goal {result.goal}" if result.goal else "")


if __name__ == "__main__":
    sys.exit(main())
