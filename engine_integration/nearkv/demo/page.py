"""The demo's page: texts side by side, plots and facts, in one file that loads nothing."""

from collections.abc import Mapping
from html import escape
from typing import Any

from nearkv.demo.figures import rate
from nearkv.demo.plots import bar_figure, bars, plots_body, plots_scripts
from nearkv.demo.runs import STAGES, Comparison
from nearkv.html import html_page

_STYLE = """\
.texts { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
.texts h3 { font-size: 1rem; margin: 0; }
pre { background: #f6f8fa; padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }"""

_BODY = """\
<p>{lead}</p>
<dl>{facts}</dl>
<h2>What each run wrote after <code>{question}</code></h2>
<div class="texts">{texts}</div>
{plots}"""

_LEAD = """\
A model read a document in which the line <code>{needle}</code> was planted, and was asked for it at
the end. The plain run attends on the host, over its own cache. The NearKV runs keep the newest
tokens on the host and all others in the device: queries go down, partial outputs with their
log-sum-exp come back. All figures were measured in this run."""


def render_page(
    summary: Mapping[str, Any], comparison: Comparison, facts: Mapping[str, str]
) -> str:
    """The whole page."""
    needle = summary["needle"]
    texts = summary["texts"].items()
    body = _BODY.format(
        lead=_LEAD.format(needle=escape(needle)),
        facts="".join(
            f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()
        ),
        question=escape(needle.partition("=")[0] + "="),
        texts="".join(
            f"<div><h3>{escape(name)}</h3><pre>{escape(text)}</pre></div>" for name, text in texts
        ),
        plots=plots_body(_plots(comparison)),
    )
    return html_page("NearKV demo", body, style=_STYLE, scripts=plots_scripts())


def _plots(comparison: Comparison) -> dict[str, Any]:
    near, plain = comparison.near, comparison.plain
    full_bytes = comparison.full_scan_bytes(near[0])
    link = {run.name: comparison.link_bytes_per_token(run) for run in near}
    speed = {run.name: rate(run).median for run in (plain, *near)}
    return {
        "Bytes over the link per token (log scale)": bars(
            {"moving K and V": full_bytes, **link}, "bytes per token", logarithmic=True
        ),
        "Bytes read near the data per token": _stacks(comparison, full_bytes),
        "Decoding speed": bars(speed, "tokens per second (median)"),
    }


def _stacks(comparison: Comparison, full_bytes: float) -> Any:
    names = ["full scan, bf16", *(run.name for run in comparison.near)]
    colors = ["#0969da", "#8250df", "#bf8700", "#1a7f37", "#afb8c1"]
    data: dict[str, list[Any]] = {"name": names}
    for stage in STAGES:
        data[stage] = [0.0, *(run.per_token(stage) for run in comparison.near)]
    data["all"] = [full_bytes, *[0.0] * len(comparison.near)]
    plot = bar_figure(names, "bytes per token", tooltips="@name, $name: @$name{0,0}")
    kinds = [*STAGES, "all"]
    plot.hbar_stack(
        kinds, y="name", height=0.6, color=colors, source=data, legend_label=[*STAGES, "full scan"]
    )
    plot.x_range.start = 0
    plot.legend.orientation = "horizontal"
    plot.add_layout(plot.legend[0], "above")
    return plot
