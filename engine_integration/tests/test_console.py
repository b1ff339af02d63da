"""Names that others chose do not drive a terminal, nor forge a line of a log."""

import logging

import pytest

from nearkv.console import printable, start_logging

pytestmark = pytest.mark.quick

_NAME = "llama\x1b]0;renamed\x07\x1b[2J\x9b31m\nok"
_SHOWN = r"llama\x1b]0;renamed\x07\x1b[2J\x9b31m\nok"


def test_what_is_no_printable_character_is_written_out() -> None:
    assert printable(_NAME) == _SHOWN
    assert printable("模型 é/8B") == "模型 é/8B"
    assert printable("abc\u202efdp.\udc80") == r"abc\u202efdp.\udc80", "nor is a text turned round"


def test_a_message_is_one_line_whatever_its_names_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    start_logging()
    root.info("%s has come", _NAME)
    try:
        raise ValueError(_NAME)
    except ValueError:
        root.exception("%s could not be followed", _NAME)
    said = capsys.readouterr().err
    assert not any(letter in said for letter in "\x1b\x07\x9b")
    first, second, *trace = said.splitlines()
    assert first.endswith(f"INFO {_SHOWN} has come")
    assert second.endswith(f"ERROR {_SHOWN} could not be followed")
    assert trace[0] == "  Traceback (most recent call last):"
    assert trace[-1] == "  ok", "what an exception says begins no line of the log"
