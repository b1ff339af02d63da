"""Fixtures of the model tests, and the path on which they find the package `evaluation`."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODELS = Path(__file__).parent
sys.path.insert(0, str(MODELS))

MISSING = [name for name in ("torch", "transformers", "tokenizers") if find_spec(name) is None]

collect_ignore_glob = ["tests/*"] if MISSING else []


def pytest_report_header() -> str | None:
    return f"model tests not collected, missing: {', '.join(MISSING)}" if MISSING else None


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return MODELS / "recall_3m"


@pytest.fixture(scope="session")
def documents_folder() -> Path:
    return MODELS / "documents"


@pytest.fixture(scope="session")
def demo_document(documents_folder: Path) -> str:
    return (documents_folder / "postgresql-high-availability.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path) -> "Tokenizer":
    """The tokenizer of the shipped model."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))
