"""The page of the cluster's demo: figures side by side, in one file that loads nothing."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nearkv.cluster.figures import Phase, format_table
from nearkv.html import html_page
from nearkv.results import format_number, git_commit, machine_description

_STYLE = """\
pre { background: #f6f8fa; padding: .75rem; overflow-x: auto; }"""

_BODY = """\
<p>{lead}</p>
<dl>{facts}</dl>
<pre>{table}</pre>
{plots}"""

_LEAD = """\
{users} users who share a long beginning asked {turns} times each through one port. First workers of
which each kept its own cache; then as many over a pool, {prefill} that prefilled and {decode} that
decoded.{killed} All figures were measured in this run, on one machine that all processes shared."""


def render_page(phases: Sequence[Phase], options: Mapping[str, Any]) -> str:
    """The whole page; options as the command line has them."""
    from bokeh.resources import Resources

    killed = "" if options["no_kill"] else " Of both one was killed when half of it was over."
    facts = {
        "same texts": "yes" if phases[0].texts == phases[1].texts else "no",
        "model": options["model"].name,
        "machine": machine_description(),
        "commit": git_commit(),
    }
    first_ms = {phase.name: 1000 * phase.first_tokens_s.median for phase in phases}
    later_ms = {phase.name: 1000 * phase.per_tokens_s.median for phase in phases}
    computed = {phase.name: phase.computed_tokens for phase in phases}
    plots = {
        "Time to the first token of later turns": _bars(first_ms, "ms (median)"),
        "Time of each token after it": _bars(later_ms, "ms (median)"),
        "Tokens of prompts that were computed, on all workers": _bars(computed, "tokens"),
    }
    body = _BODY.format(
        lead=escape(_LEAD.format(killed=killed, **options)),
        facts="".join(
            f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()
        ),
        table=escape(format_table(phases)),
        plots=_plots_body(plots),
    )
    scripts = Resources(mode="inline", components=["bokeh"]).render_js()
    return html_page("NearKV cluster demo", body, style=_STYLE, scripts=scripts)


def _plots_body(plots: Mapping[str, Any]) -> str:
    """HTML of figures by their titles."""
    from bokeh.embed import components

    script, divisions = components(dict(plots))
    figures = [
        f'<h2>{escape(title)}</h2>\n<figure class="plot">{division}</figure>'
        for title, division in divisions.items()
    ]
    return "\n".join([*figures, script])


def _bars(values: Mapping[str, float], label: str) -> Any:
    """A bar of each value; the first is what the others stand beside."""
    from bokeh.models import NumeralTickFormatter
    from bokeh.plotting import figure

    names = list(values)
    plot = figure(
        y_range=names[::-1],
        height=90 + 40 * len(names),
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="hover",
        tooltips="@name: @text",
        x_axis_label=label,
    )
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    plot.ygrid.grid_line_color = None
    data = {
        "name": names,
        "value": list(values.values()),
        "text": [format_number(value) for value in values.values()],
        "color": ["#afb8c1", *["#0969da"] * (len(names) - 1)],
    }
    plot.hbar(y="name", left=0, right="value", height=0.6, color="color", source=data)
    plot.x_range.start = 0
    return plot
