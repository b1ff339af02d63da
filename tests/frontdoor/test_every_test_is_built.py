"""No C++ test lies in the tree without a program that it is compiled into."""

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]


def _builds(folder: Path, stem: str) -> bool:
    """Whether the build of a folder, or of one around it, names a test.

    A build names a file, or what a loop puts in the place of `${test}` in its name.
    """
    names = {stem, stem.removesuffix("_test"), stem.removesuffix("_test").partition("_")[2]} - {""}
    words = "|".join(map(re.escape, names))
    builds = (above / "CMakeLists.txt" for above in (folder, *folder.parents))
    texts = (build.read_text() for build in builds if build.is_file())
    return any(re.search(rf"(?<![\w-])({words})(?![\w-])", text) for text in texts)


@pytest.mark.quick
def test_every_file_of_tests_is_in_a_build() -> None:
    tests = sorted(_TESTS.rglob("*_test.cpp"))
    assert tests
    assert [str(test) for test in tests if not _builds(test.parent, test.stem)] == []
