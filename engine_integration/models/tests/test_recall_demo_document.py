"""The demo document is tidy, licensed text of a useful length that the tokenizer keeps."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

pytestmark = pytest.mark.quick

REPOSITORY = Path(__file__).parents[3]


def test_tokenizer_round_trip(vocabulary: Tokenizer, demo_document: str) -> None:
    assert vocabulary.decode(vocabulary.encode(demo_document).ids) == demo_document


def test_length_in_tokens(
    vocabulary: Tokenizer, demo_document: str, documents_folder: Path
) -> None:
    tokens = len(vocabulary.encode(demo_document).ids)
    assert 16_384 <= tokens <= 32_768
    facts = f"{len(demo_document.encode()):,} bytes, {tokens:,} tokens"
    assert facts in (documents_folder / "README.md").read_text(encoding="utf-8")


def test_lines_are_tidy(demo_document: str) -> None:
    lines = demo_document.split("\n")
    assert lines[-1] == ""
    assert max(map(len, lines)) <= 120
    assert not [line for line in lines if line != line.rstrip() or "\t" in line]


def test_every_digit_is_one_token(vocabulary: Tokenizer) -> None:
    assert vocabulary.encode("2048=1367;").tokens == [*"2048", "=", *"1367", ";"]


def test_any_text_survives_the_tokenizer(vocabulary: Tokenizer) -> None:
    text = "naïve → 漢字 🙂\r\n\ttab\x00end  "
    assert vocabulary.decode(vocabulary.encode(text).ids) == text


def test_licences_are_shipped(documents_folder: Path) -> None:
    licence = documents_folder / "postgresql-high-availability.LICENSE"
    assert "Permission to use, copy, modify, and distribute" in licence.read_text(encoding="utf-8")
    assert "Apache License" in (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
