"""What a function may do: no recursion, no dynamic memory, nothing from outside, bounded loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .source import Cursor, CursorKind, Finding, Source, text_of

_MEMORY = re.compile(r"^(malloc|calloc|realloc|free|operator new.*|operator delete.*)$")
# Headers whose functions synthesis knows: arbitrary widths, streams, the contract.
_KNOWN = re.compile(r"/(ap_\w+|hls_\w+|nkv_abi)\.h$")
_PIPELINE = re.compile(r"pipeline\s+II\s*=\s*\d+")
_TRIPCOUNT = re.compile(r"loop_tripcount\b.*\bmax\s*=\s*\d+")
_COMPARISON = re.compile(r"^(?P<left>.+?) (?P<operator><|<=|>|>=) (?P<right>.+)$")


def subset_findings(source: Source) -> Iterator[Finding]:
    """All that a unit's functions may not do."""
    yield from _recursion(source)
    for function in source.functions.values():
        yield from _memory_and_calls(source, function)
        yield from _loops(source, function)
        yield from _intervals(source, function)


def _finding(cursor: Cursor, text: str) -> Finding:
    return Finding(Path(cursor.location.file.name).resolve(), cursor.location.line, text)


def _recursion(source: Source) -> Iterator[Finding]:
    called = {
        usr: {
            callee.get_usr()
            for _, callee in source.calls(function)
            if callee is not None and callee.get_usr() in source.functions
        }
        for usr, function in source.functions.items()
    }
    for usr, function in source.functions.items():
        reached: set[str] = set()
        waiting = list(called[usr])
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += called[name]
        if usr in reached:
            yield _finding(function, f"{function.spelling} calls itself")


def _memory_and_calls(source: Source, function: Cursor) -> Iterator[Finding]:
    for cursor in function.walk_preorder():
        if cursor.kind in (CursorKind.CXX_NEW_EXPR, CursorKind.CXX_DELETE_EXPR):
            yield _finding(cursor, "dynamic memory: new or delete")
        elif cursor.kind in (CursorKind.CXX_THROW_EXPR, CursorKind.CXX_TRY_STMT):
            yield _finding(cursor, "exceptions are not synthesised")
        elif cursor.kind == CursorKind.VAR_DECL and _is_of_library(cursor):
            yield _finding(cursor, f"{cursor.spelling} is a {cursor.type.spelling}")
    names = _names_of_streams(function)
    for call, callee in source.calls(function):
        if callee is None or call.hash in names:
            continue
        if _MEMORY.match(callee.spelling):
            yield _finding(call, f"dynamic memory: {callee.spelling}")
        elif callee.location.file is None:
            continue  # A built-in function, or a constructor that nobody wrote.
        elif not source.is_ours(callee) and not _KNOWN.search(callee.location.file.name):
            yield _finding(call, f"{callee.spelling} is not synthesised: it is not of the kernels")
        elif callee.kind == CursorKind.VAR_DECL or callee.kind == CursorKind.PARM_DECL:
            yield _finding(call, f"{callee.spelling} is a function that is known at run time only")


def _is_of_library(variable: Cursor) -> bool:
    """Whether it is an object of the standard library, which may hold memory."""
    kind = variable.type.get_canonical()
    return "std::" in kind.spelling and not kind.is_pod()


def _names_of_streams(function: Cursor) -> set[int]:
    """The strings by which streams are declared: synthesis drops them."""
    return {
        inner.hash
        for cursor in function.walk_preorder()
        if cursor.kind == CursorKind.VAR_DECL and "stream<" in cursor.type.spelling
        for inner in cursor.walk_preorder()
        if "basic_string" in inner.spelling
    }


def _loops(source: Source, function: Cursor) -> Iterator[Finding]:
    for cursor in function.walk_preorder():
        if cursor.kind in (CursorKind.WHILE_STMT, CursorKind.DO_STMT):
            yield _finding(cursor, "a while loop has no bound: count with a for loop")
        elif cursor.kind == CursorKind.FOR_STMT:
            reason = _unbounded(source, cursor)
            if reason:
                yield _finding(cursor, f"a loop without a bound: {reason}")


def _unbounded(source: Source, loop: Cursor) -> str | None:
    """Why a for loop may not end, or how often synthesis cannot know; None if all is well."""
    *head, body = list(loop.get_children())
    if len(head) != 3 or head[0].kind != CursorKind.DECL_STMT:
        return "it does not declare, compare and step one counter"
    counters = [child for child in head[0].get_children() if child.kind == CursorKind.VAR_DECL]
    if len(counters) != 1:
        return "it has not one counter"
    counter = counters[0].spelling
    condition, step = text_of(head[1]), text_of(head[2])
    comparisons = [_COMPARISON.match(part) for part in condition.split(" && ")]
    if not all(comparisons) or not any(counter in m["left"].split() for m in comparisons if m):
        return f"its condition is not a comparison of {counter}"
    if not re.fullmatch(rf"(\+\+|--) {counter}|{counter} (\+\+|--|\+=|-=) ?\w*", step):
        return f"{counter} takes no constant step"
    for cursor in body.walk_preorder():
        if _writes(cursor) and text_of(cursor).split()[:1] == [counter]:
            return f"{counter} changes in its body"
        words = text_of(cursor).split() if cursor.kind == CursorKind.UNARY_OPERATOR else []
        if counter in words and ("++" in words or "--" in words):
            return f"{counter} changes in its body"
    if _is_constant(head[1], counters[0]):
        return None
    if not any(_TRIPCOUNT.search(p.text) for p in source.pragmas(loop)[:3]):
        return "its bound is not constant, and no loop_tripcount says how large it gets"
    return None


def _writes(cursor: Cursor) -> bool:
    if cursor.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
        return True
    return cursor.kind == CursorKind.BINARY_OPERATOR and " = " in f" {text_of(cursor)} "


def _is_constant(condition: Cursor, counter: Cursor) -> bool:
    """Whether a condition names nothing but its counter and constants."""
    for cursor in condition.walk_preorder():
        if cursor.kind != CursorKind.DECL_REF_EXPR or cursor.referenced is None:
            continue
        named = cursor.referenced
        if named == counter or named.kind in (
            CursorKind.ENUM_CONSTANT_DECL,
            CursorKind.TEMPLATE_NON_TYPE_PARAMETER,
        ):
            continue
        if "constexpr" not in [token.spelling for token in named.get_tokens()]:
            return False
    return True


def _intervals(source: Source, function: Cursor) -> Iterator[Finding]:
    for pragma in source.pragmas(function):
        if _PIPELINE.search(pragma.text) and not pragma.reason:
            yield Finding(
                Path(function.location.file.name).resolve(),
                pragma.line,
                "an initiation interval without its reason",
            )
