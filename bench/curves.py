"""Results with a curve in `extra`: plots of those that name the same one, and their figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearkv.results import Result, align_rows, format_number


@dataclass(frozen=True)
class CurveTable:
    """A plot's figures where all its lines have the same x: a row for each line."""

    title: str
    heads: tuple[str, ...]
    """What x is, and each x."""
    rows: tuple[tuple[str, ...], ...]

    def as_text(self) -> str:
        """Aligned, with its title."""
        return "\n".join([self.title, *align_rows([self.heads, *self.rows], [0])])


def curves_of(results: Sequence[Result]) -> dict[str, list[Result]]:
    """By plot, in the order in which they come."""
    plots: dict[str, list[Result]] = {}
    for result in results:
        if curve := result.extra.get("curve"):
            plots.setdefault(curve["plot"], []).append(result)
    return plots


def curve_table(title: str, results: Sequence[Result]) -> CurveTable | None:
    """The table of one plot; None where lines differ in x."""
    curves = [result.extra["curve"] for result in results]
    xs = list(curves[0]["x"])
    if any(list(curve["x"]) != xs for curve in curves):
        return None
    heads = (curves[0]["x_label"], *map(format_number, xs))
    return CurveTable(f"{title}, {results[0].unit}", heads, tuple(map(_cells, curves)))


def _cells(curve: Mapping[str, Any]) -> tuple[str, ...]:
    spreads = curve.get("spread", [None] * len(curve["y"]))
    cells = [
        format_number(value) + ("" if spread is None else f" ±{format_number(spread)}")
        for value, spread in zip(curve["y"], spreads, strict=True)
    ]
    return (curve["line"], *cells)


def line_plot(results: Sequence[Result]) -> Any:
    """A line for each curve."""
    from bokeh.models import HoverTool
    from bokeh.palettes import Category20, Colorblind
    from bokeh.plotting import figure

    unit = results[0].unit
    scale = results[0].extra["curve"].get("y_scale", "linear")
    plot = figure(
        height=320,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
        x_axis_label=results[0].extra["curve"]["x_label"],
        x_axis_type=results[0].extra["curve"].get("x_scale", "linear"),
        y_axis_label=unit,
        y_axis_type=scale,
    )
    colors = Colorblind[8] if len(results) <= 8 else Category20[20]
    for index, result in enumerate(results):
        curve = result.extra["curve"]
        look = {"color": colors[index % len(colors)], "legend_label": curve["line"]}
        data = {"x": curve["x"], "y": curve["y"]}
        plot.line("x", "y", source=data, line_width=2, **look)
        dots = plot.scatter("x", "y", source=data, size=6, **look)
        hover = f"{curve['line']}: @y {unit} at @x {curve['x_label']}"
        plot.add_tools(HoverTool(renderers=[dots], tooltips=[("", hover)]))
    if scale == "linear":
        plot.y_range.start = min(0.0, *(min(result.extra["curve"]["y"]) for result in results), 0.0)
    plot.legend.orientation = "horizontal"
    plot.legend.ncols = min(len(results), 8)
    plot.add_layout(plot.legend[0], "above")
    return plot
