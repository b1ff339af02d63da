"""Names of classes in the Python package and the benches that measure it."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.quick


def test_a_public_class_name_is_defined_once():
    """A reader who meets a name in an error, a log or a signature has to find one class for it."""
    places = defaultdict(list)
    for folder in ("engine_integration/nearkv", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert {"ObjectStore", "Context"} <= places.keys()
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
