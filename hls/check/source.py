"""A kernel's source as libclang reads it: functions of ours, what they call, and their pragmas."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

try:
    from clang.cindex import Cursor, CursorKind, Index, TranslationUnit, TypeKind, conf
except ImportError:  # Source says so before any of these is used.
    Cursor = CursorKind = Index = TranslationUnit = TypeKind = conf = None

_ROOT = Path(__file__).parents[2]
_HEADERS = _ROOT / ".venv" / "share" / "hls"
_FUNCTIONS = () if conf is None else (CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE)
_PRAGMA = re.compile(r"^\s*#pragma HLS\s+(?P<text>.*?)\s*(?://\s*(?P<reason>.*))?$")


class MissingParserError(RuntimeError):
    """libclang or the open HLS headers are not here."""


@dataclass(frozen=True)
class Finding:
    """Something that synthesis would not take."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        shown = self.file.relative_to(_ROOT) if self.file.is_relative_to(_ROOT) else self.file
        return f"{shown}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Pragma:
    """A `#pragma HLS`, and the comment behind it."""

    line: int
    text: str
    reason: str


class Source:
    """One translation unit. Functions of ours are its own and those of headers beside it."""

    def __init__(self, file: Path) -> None:
        if conf is None:
            raise MissingParserError("no libclang (./nearkv setup installs it)")
        if not (_HEADERS / "ap_int.h").exists():
            raise MissingParserError("no HLS headers (./nearkv setup installs them)")
        self.file = file.resolve()
        arguments = ["-std=c++17", f"-I{_ROOT / 'hls'}", f"-I{_ROOT / 'rtl' / 'abi' / 'gen'}"]
        arguments += ["-isystem", str(_HEADERS), "-isystem", _compiler_headers()]
        unit: TranslationUnit = Index.create().parse(str(self.file), arguments)
        errors = [str(note) for note in unit.diagnostics if note.severity >= note.Error]
        if errors:
            raise ValueError(f"{file} does not compile: {errors[0]}")
        self._unit = unit

    def is_ours(self, cursor: Cursor) -> bool:
        """Whether it stands in a file of the kernels, or beside the file that is checked."""
        location = cursor.location.file
        if location is None:
            return False
        path = Path(location.name).resolve()
        return path.parent in (self.file.parent, _ROOT / "hls" / "kernels")

    @cached_property
    def functions(self) -> dict[str, Cursor]:
        """Definitions of ours by their USR."""
        found = {}

        def walk(cursor: Cursor) -> None:
            for child in cursor.get_children():
                if (
                    child.kind in (CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC)
                    or (
                        child.kind in (CursorKind.STRUCT_DECL, CursorKind.CLASS_DECL)
                        and self.is_ours(child)
                    )
                    or child.kind.name == "UNEXPOSED_DECL"
                ):
                    walk(child)
                elif (
                    child.kind in (*_FUNCTIONS, CursorKind.CXX_METHOD)
                    and child.is_definition()
                    and self.is_ours(child)
                ):
                    found[child.get_usr()] = child

        walk(self._unit.cursor)
        return found

    def calls(self, function: Cursor) -> Iterator[tuple[Cursor, Cursor | None]]:
        """Calls in a function, with what each names; None where the parser cannot tell."""
        for cursor in function.walk_preorder():
            if cursor.kind == CursorKind.CALL_EXPR:
                yield cursor, callee_of(cursor)

    def pragmas(self, cursor: Cursor) -> list[Pragma]:
        """The pragmas within a cursor's lines."""
        file = Path(cursor.location.file.name)
        first, last = cursor.extent.start.line, cursor.extent.end.line
        found = []
        for line, text in enumerate(lines_of(file)[first - 1 : last], start=first):
            if match := _PRAGMA.match(text):
                found.append(Pragma(line, match["text"], match["reason"] or ""))
        return found


@cache
def _compiler_headers() -> str:
    """Where stddef.h and its like are: libclang's package has none of its own."""
    told = subprocess.run(
        ["c++", "-print-file-name=include"], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def callee_of(call: Cursor) -> Cursor | None:
    """What a call names: a function, or the one template of that name."""
    if call.referenced is not None:
        template = _template_of(call.referenced)
        return template or call.referenced
    for child in call.walk_preorder():
        if child.kind == CursorKind.OVERLOADED_DECL_REF:
            of_template = [
                candidate
                for candidate in _overloads(child)
                if candidate.kind in (*_FUNCTIONS, CursorKind.CXX_METHOD)
            ]
            return of_template[0] if len(of_template) == 1 else None
    return None


def _template_of(cursor: Cursor) -> Cursor | None:
    template = conf.lib.clang_getSpecializedCursorTemplate(cursor)
    return template if template and template.kind in _FUNCTIONS else None


def _overloads(cursor: Cursor) -> list[Cursor]:
    count = conf.lib.clang_getNumOverloadedDecls(cursor)
    return [conf.lib.clang_getOverloadedDecl(cursor, i) for i in range(count)]


_LINES: dict[Path, list[str]] = {}


def lines_of(file: Path) -> list[str]:
    """A file's lines, read once."""
    if file not in _LINES:
        _LINES[file] = file.read_text(encoding="utf-8").splitlines()
    return _LINES[file]


def text_of(cursor: Cursor) -> str:
    """A cursor's source, on one line."""
    return " ".join(token.spelling for token in cursor.get_tokens())
