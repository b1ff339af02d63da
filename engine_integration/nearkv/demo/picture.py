"""The demo's results as one picture, drawn without a browser."""

from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from nearkv.demo.figures import Panel, panels
from nearkv.demo.page import heat
from nearkv.results import format_number

_WIDTH, _MARGIN, _LINE = 1200, 40, 30
_BAR_LEFT, _BAR_WIDTH = 470, 510
_INK, _GREY, _BLUE, _PALE = "#1b1f24", "#afb8c1", "#0969da", (246, 248, 250)
_ORANGE = (255, 150, 0)


def draw(summary: Mapping[str, Any]) -> Image.Image:
    """Question, answer, the bars, and where in the document attention went."""
    shown = panels(summary)
    bars = sum(len(panel.bars) for panel in shown)
    height = 2 * _MARGIN + _LINE * (bars + 2 * len(shown) + 9)
    image = Image.new("RGB", (_WIDTH, height), "white")
    canvas = ImageDraw.Draw(image)
    y = _MARGIN
    for text, size in (
        ("NearKV demo", 28),
        (f"{summary['model']} read {summary['document_tokens']:,} tokens.", 18),
        (f"Asked: {summary['question']}", 18),
        (f"Answer: {' '.join(summary['texts']['exact'].split())}", 18),
    ):
        canvas.text((_MARGIN, y), _fitting(canvas, text, size), _INK, ImageFont.load_default(size))
        y += _LINE + size // 4
    for panel in shown:
        y = _draw_panel(canvas, panel, y + _LINE // 2)
    title = "Where in the document the answer's attention went, from the first page to the last"
    canvas.text((_MARGIN, y + _LINE // 2), title, _INK, ImageFont.load_default(18))
    _draw_strip(canvas, summary["attention"], y + 2 * _LINE)
    return image


def _draw_panel(canvas: ImageDraw.ImageDraw, panel: Panel, y: int) -> int:
    canvas.text((_MARGIN, y), panel.title, _INK, ImageFont.load_default(18))
    y += _LINE
    most = max(panel.bars.values()) or 1.0
    font = ImageFont.load_default(15)
    for number, (name, value) in enumerate(panel.bars.items()):
        canvas.text((_MARGIN, y), name, _INK, font)
        end = _BAR_LEFT + max(2, round(_BAR_WIDTH * value / most))
        canvas.rectangle((_BAR_LEFT, y, end, y + 18), _BLUE if number else _GREY)
        canvas.text((end + 8, y), f"{format_number(value)} {panel.unit}", _INK, font)
        y += _LINE
    return y


def _draw_strip(canvas: ImageDraw.ImageDraw, attention: list[float], y: int) -> None:
    step = (_WIDTH - 2 * _MARGIN) / len(attention)
    for page, dark in enumerate(heat(attention)):
        left = _MARGIN + page * step
        colour = tuple(
            round(pale + dark * (strong - pale))
            for pale, strong in zip(_PALE, _ORANGE, strict=True)
        )
        canvas.rectangle((left, y, left + step, y + 2 * _LINE), colour)


def _fitting(canvas: ImageDraw.ImageDraw, text: str, size: int) -> str:
    """A text without what does not fit into the picture's width."""
    font = ImageFont.load_default(size)
    while canvas.textlength(text, font) > _WIDTH - 2 * _MARGIN:
        text = text[:-2].rstrip() + "…"
    return text
