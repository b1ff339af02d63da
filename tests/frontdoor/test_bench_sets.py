"""A bench with a line of its own in sets.toml imports only what the sets in that line install."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads((ROOT / "sets.toml").read_text())
FOLDERS = {"bench": ROOT, "nearkv": ROOT / "engine_integration"}
PACKAGES = {"faiss": "faiss-cpu"}  # where a package is not named as what it is imported by
MADE = {"_nearkv", "nkv_abi"}  # built by the commands, generated from the contract
BENCHES = [name.removeprefix("bench ") for name in TABLE["commands"] if name.startswith("bench ")]


def source_of(module: str) -> Path | None:
    """Where the project keeps a module, or None of one that is not the project's."""
    base = FOLDERS.get(module.partition(".")[0])
    if base is None:
        return None
    path = base / module.replace(".", "/")
    return next(
        (found for found in (path.with_suffix(".py"), path / "__init__.py") if found.is_file()),
        None,
    )


def imported_on_import(source: Path) -> Iterator[str]:
    """Modules that are imported as soon as this one is; not those that its functions import."""
    waiting: list[ast.AST] = [ast.parse(source.read_text())]
    while waiting:
        match waiting.pop():
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                yield from (f"{module}.{name.name}" for name in names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case node:
                waiting += ast.iter_child_nodes(node)


@cache
def foreign_modules(module: str) -> frozenset[str]:
    """Others' packages that an import of the module imports, also through the project's own."""
    foreign: set[str] = set()
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        top = name.partition(".")[0]
        if top not in {*FOLDERS, *MADE, *sys.stdlib_module_names}:
            foreign.add(top)
        parent = name.rpartition(".")[0]
        if parent:
            waiting.append(parent)
        if source := source_of(name):
            waiting += imported_on_import(source)
    return frozenset(foreign)


def packages_of(sets: list[str]) -> set[str]:
    """Python packages of these sets, and of those that they are built on."""
    packages: set[str] = set()
    for name in sets:
        entry = TABLE["sets"][name]
        packages |= {*entry.get("pip", ()), *packages_of(entry.get("needs", []))}
    return packages


@pytest.mark.quick
@pytest.mark.parametrize("bench", BENCHES)
def test_a_bench_imports_only_what_its_sets_install(bench: str):
    installed = packages_of(TABLE["commands"][f"bench {bench}"]["sets"])
    for module in foreign_modules(f"bench.{bench}"):
        assert PACKAGES.get(module, module) in installed, (
            f"bench {bench} imports {module}, which none of its sets installs"
        )


@pytest.mark.quick
def test_the_benches_imports_are_seen():
    assert {"numpy", "torch"} <= foreign_modules("bench.codec")
    assert "transformers" in foreign_modules("bench.codec")  # through bench.data.captured
