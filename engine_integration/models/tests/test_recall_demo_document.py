"""The demo document is tidy text of a useful length that the tokenizer keeps to the byte."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from training import tokenizer as tokenizers


@pytest.fixture(scope="module")
def vocabulary(model_folder: Path) -> Tokenizer:
    return tokenizers.load(model_folder)


def test_tokenizer_round_trip(vocabulary: Tokenizer, demo_document: str) -> None:
    assert vocabulary.decode(vocabulary.encode(demo_document).ids) == demo_document


def test_length_in_tokens(vocabulary: Tokenizer, demo_document: str) -> None:
    assert 17_000 <= len(vocabulary.encode(demo_document).ids) <= 25_000


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
