"""Turns a documentation page into plain text with tidy line breaks."""

import re
import textwrap
from html.parser import HTMLParser

LINE_WIDTH = 88

_NEVER_TEXT = frozenset({"head", "script", "style", "nav", "svg", "button", "form", "footer"})
# Classes and ids of navigation, in the themes of Sphinx, DocBook, mdBook, Node.js and SQLite.
_NAVIGATION = frozenset(
    {
        *("sphinxsidebar", "related", "headerlink", "contents", "topnav", "bottomnav"),
        *("hd", "ft", "nav", "view_next_prev"),
        *("navheader", "navfooter", "footer", "toc"),
        *("nav-wide-wrapper", "nav-wrapper", "menu-bar", "sidebar"),
        *("column2", "mark", "srclink", "js-flavor-selector", "picker-header"),
        *("nosearch", "menubar"),
    }
)
_TO_ASCII = str.maketrans(
    {
        "\u00a0": " ",
        "\u00b6": "",
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2026": "...",
        "\u200b": "",
    }
)
_PARAGRAPH = frozenset(
    {
        *("p", "div", "section", "article", "main", "blockquote", "pre", "details", "summary"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "figure", "ul", "ol", "dl", "table"),
    }
)
_LINE = frozenset({"br", "li", "dt", "dd", "tr", "caption"})
_VOID = frozenset({"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})


class _TextExtractor(HTMLParser):
    """Collects text blocks: ("text", words) to be wrapped, ("pre", lines) to be kept."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[tuple[str, str]] = []
        self._pieces: list[str] = []
        self._pre_depth = 0
        self._skipped_tag = ""
        self._skipped_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped_tag:
            self._skipped_depth += tag == self._skipped_tag
            return
        if tag not in _VOID and (tag in _NEVER_TEXT or self._is_navigation(attrs)):
            self._skipped_tag, self._skipped_depth = tag, 1
            return
        if tag in _PARAGRAPH:
            self.close_block(blank_line=True)
        elif tag in _LINE:
            self.close_block(blank_line=False)
        if tag == "pre":
            self._pre_depth += 1
        elif tag == "li":
            self._pieces.append("- ")
        elif tag in ("td", "th") and "".join(self._pieces).strip():
            self._pieces.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if self._skipped_tag:
            self._skipped_depth -= tag == self._skipped_tag
            if self._skipped_depth == 0:
                self._skipped_tag = ""
            return
        if tag in _PARAGRAPH or tag in _LINE:
            self.close_block(blank_line=tag in _PARAGRAPH)
        if tag == "pre":
            self._pre_depth = max(0, self._pre_depth - 1)

    def handle_data(self, data: str) -> None:
        if not self._skipped_tag:
            self._pieces.append(data.translate(_TO_ASCII))

    def close_block(self, *, blank_line: bool) -> None:
        """Ends the current block; asks for an empty line after it if `blank_line`."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if self._pre_depth:
            if text.strip():
                self.blocks.append(("pre", text.strip("\n")))
        else:
            words = " ".join(text.split())
            if words not in ("", "-"):
                self.blocks.append(("text", words))
        if blank_line:
            self.blocks.append(("blank", ""))

    @staticmethod
    def _is_navigation(attrs: list[tuple[str, str | None]]) -> bool:
        names = {
            word for key, value in attrs if key in ("class", "id") for word in (value or "").split()
        }
        return not names.isdisjoint(_NAVIGATION)


def html_to_text(html: str) -> str:
    """Text of a page: paragraphs wrapped, preformatted lines kept, no navigation.

    Typographic quotes, dashes and spaces become their ASCII forms.
    """
    extractor = _TextExtractor()
    extractor.feed(html)
    extractor.close()
    extractor.close_block(blank_line=False)
    lines: list[str] = []
    for kind, text in extractor.blocks:
        if kind == "text":
            lines += textwrap.wrap(
                text,
                LINE_WIDTH,
                subsequent_indent="  " if text.startswith("- ") else "",
                break_long_words=False,
                break_on_hyphens=False,
            )
        elif kind == "pre":
            lines += [line.rstrip() for line in text.expandtabs(4).split("\n")]
        else:
            lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
