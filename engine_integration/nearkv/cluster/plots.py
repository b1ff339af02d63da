"""Plots of the page, by bokeh, in the page itself."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nearkv.results import format_number


def plots_body(plots: Mapping[str, Any]) -> str:
    """HTML of figures by their titles."""
    from bokeh.embed import components

    script, divisions = components(dict(plots))
    figures = [
        f'<h2>{escape(title)}</h2>\n<figure class="plot">{division}</figure>'
        for title, division in divisions.items()
    ]
    return "\n".join([*figures, script])


def plots_scripts() -> str:
    """What a page with plots needs in its head."""
    from bokeh.resources import Resources

    return Resources(mode="inline", components=["bokeh"]).render_js()


def bar_figure(names: Sequence[str], label: str, **options: Any) -> Any:
    """An empty figure for a bar of each name; options as bokeh's."""
    from bokeh.models import NumeralTickFormatter
    from bokeh.plotting import figure

    plot = figure(
        y_range=list(reversed(names)),
        height=90 + 40 * len(names),
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="hover",
        x_axis_label=label,
        **options,
    )
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    plot.ygrid.grid_line_color = None
    return plot


def bars(values: Mapping[str, float], label: str, logarithmic: bool = False) -> Any:
    """A bar of each value; the first is what the others stand beside."""
    names = list(values)
    axis = {"x_axis_type": "log"} if logarithmic else {}
    plot = bar_figure(names, label, tooltips="@name: @text", **axis)
    start = min(values.values()) / 2 if logarithmic else 0
    data = {
        "name": names,
        "value": list(values.values()),
        "text": [format_number(value) for value in values.values()],
        "color": ["#afb8c1", *["#0969da"] * (len(names) - 1)],
    }
    plot.hbar(y="name", left=start, right="value", height=0.6, color="color", source=data)
    plot.x_range.start = start
    return plot
