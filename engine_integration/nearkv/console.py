"""What goes to a terminal: names that others chose may hold what drives it, or forges a line."""

import logging
from typing import Any


def printable(text: str) -> str:
    r"""The text with what is no printable character written out, such as an escape as ``\x1b``."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


class _PrintableFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        # Indented, since an exception's own text may have lines.
        return "\n".join("  " + printable(line) for line in super().formatException(ei).split("\n"))


def start_logging() -> None:
    """Messages from INFO on go to stderr, a line each, whatever the names in them hold."""
    handler = logging.StreamHandler()
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
