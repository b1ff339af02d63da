"""The demo's page: what was read where, where attention went, how long each start took."""

from collections.abc import Mapping
from html import escape
from typing import Any

from nearkv.demo.figures import RUN_NAMES, Panel, device_text, error_text, panels, restart_text
from nearkv.html import html_page
from nearkv.results import format_number

_STYLE = """\
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
blockquote { margin: 0; padding: .75rem; background: #f6f8fa; border-left: 4px solid #0969da;
  overflow-wrap: anywhere; }
.bar { display: grid; grid-template-columns: minmax(9rem, 20rem) 1fr 11rem; gap: .5rem;
  align-items: center; }
.bar i { display: block; height: 1rem; background: #0969da; min-width: 2px; }
.bar:first-of-type i { background: #afb8c1; }
.bar b { font-weight: 400; font-variant-numeric: tabular-nums; }
.strip { display: flex; height: 3rem; margin-bottom: 1rem; background: #f6f8fa; }
.strip a { flex: 1; }
.document { white-space: pre-wrap; max-height: 32rem; overflow: auto; border: 1px solid #d0d7de;
  padding: 1rem; }
@media (max-width: 40rem) { .bar { grid-template-columns: 1fr; } }"""

_BODY = """\
<p>A language model read <b>{document}</b>, {tokens:,} tokens long, and was asked:
<b>{question}</b></p>
<p>{note}</p>
<h2>1. Ask: the same answer, and far less to move</h2>
<p>While a model answers, it looks back at the whole document for each token that it writes. It does
so by a key and a value for each token, layer and head: the KV cache. Without NearKV the processor
reads all of it. With NearKV the memory that holds it does the looking, and sends back the
result.</p>
<div class="answers">{answers}</div>
<p>The exact mode wrote {same} as transformers alone. {errors}</p>
{reads}
{restart}
<h2>3. See: where in the document the attention went</h2>
<p>The darker a passage, the larger the share of its attention that one of the model's heads gave
to it for a token of the answer. A passage is a page of 64 tokens, which is what NearKV stores. The
first one is left out: models rest their attention there when they look for nothing. The strip is
the document from its first passage to its last; a click shows the text.</p>
<div class="strip">{strip}</div>
<div class="document">{text}</div>
<h2>How it was measured</h2>
<dl>{facts}</dl>"""

_RESTART = """\
<h2>2. Pull the plug: a new process goes on where the killed one was</h2>
<p>{text}</p>
{panel}"""

_MARKS = {True: "The answer is right.", False: "The answer is wrong.", None: ""}


def render_page(summary: Mapping[str, Any]) -> str:
    """The whole page, in one file that loads nothing."""
    reads = panels(summary)
    restart = ""
    if "ttft_after_kill_s" in summary:
        *reads, starts = reads
        text = escape(restart_text(summary))
        restart = _RESTART.format(text=text, panel=_bars(starts))
    facts = {
        "model": f"{summary['model']}, computed in float32",
        "device": device_text(summary["device"]),
        "machine": summary["machine"],
        "commit": summary["commit"],
        "bytes": "what decoding one token takes, on average; K and V are bf16 in all runs",
    }
    body = _BODY.format(
        document=escape(summary["document"]),
        tokens=summary["document_tokens"],
        question=escape(summary["question"]),
        note=escape(summary["note"]),
        answers="".join(_answer(summary, name) for name in summary["texts"]),
        same="the same tokens" if summary["tokens_equal"] else "OTHER tokens",
        errors=escape(error_text(summary)),
        reads="".join(map(_bars, reads)),
        restart=restart,
        strip=_strip(summary["attention"]),
        text=_heated(summary["pages"], summary["attention"]),
        facts="".join(
            f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()
        ),
    )
    return html_page("NearKV demo", body, style=_STYLE, scripts="")


def heat(attention: list[float]) -> list[float]:
    """How dark each page is, from 0 to 1; the first, which is no measure for others, not at all."""
    others = attention[1:] or [0.0]
    least, most = min(others), max(others)
    span = (most - least) or 1.0
    return [0.0, *((share - least) / span for share in attention[1:])]


def _answer(summary: Mapping[str, Any], name: str) -> str:
    text = escape(summary["texts"][name].strip())
    mark, title = _MARKS[summary["right"][name]], RUN_NAMES[name]
    title = title[0].upper() + title[1:]
    return f"<div><h3>{title}</h3><blockquote>{text}</blockquote><p>{mark}</p></div>"


def _bars(panel: Panel) -> str:
    most = max(panel.bars.values()) or 1.0
    rows = "".join(
        f'<div class="bar"><span>{escape(name)}</span><i style="width:{100 * value / most:.2f}%">'
        f"</i><b>{format_number(value)} {escape(panel.unit)}</b></div>"
        for name, value in panel.bars.items()
    )
    return f"<h3>{escape(panel.title)}</h3>\n<div>{rows}</div>\n"


def _strip(attention: list[float]) -> str:
    return "".join(
        f'<a href="#page{number}" title="page {number}" style="background:{_colour(dark)}"></a>'
        for number, dark in enumerate(heat(attention))
    )


def _heated(pages: list[str], attention: list[float]) -> str:
    shades = zip(pages, attention, heat(attention), strict=True)
    return "".join(
        f'<span id="page{number}" title="{share:.0%} of a head\u2019s attention" '
        f'style="background:{_colour(dark)}">{escape(text)}</span>'
        for number, (text, share, dark) in enumerate(shades)
    )


def _colour(dark: float) -> str:
    return f"rgba(255,150,0,{0.9 * dark:.2f})"
