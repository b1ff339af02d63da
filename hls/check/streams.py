"""Dataflow: each stream and array between processes is of two, each port of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .source import Cursor, CursorKind, Finding, Source, TypeKind, callee_of

_STREAM = re.compile(r"\bstream<")
_READS = {"read", "read_nb", "operator>>", "empty"}
_WRITES = {"write", "write_nb", "operator<<", "full"}


def stream_findings(source: Source) -> Iterator[Finding]:
    """What a unit's dataflow functions share wrongly."""
    uses = _uses_of_parameters(source)
    for function in source.functions.values():
        if any(pragma.text == "dataflow" for pragma in source.pragmas(function)):
            yield from _check_dataflow(source, function, uses)


def _is_stream(cursor: Cursor) -> bool:
    return _STREAM.search(cursor.type.spelling) is not None


def _uses_of_parameters(source: Source) -> dict[tuple[str, int], set[str]]:
    """Whether each stream parameter is read or written: by itself, or by whom it is passed to."""
    uses: dict[tuple[str, int], set[str]] = {}
    passed: list[tuple[tuple[str, int], tuple[str, int]]] = []
    for usr, function in source.functions.items():
        streams = {p.spelling: i for i, p in enumerate(_parameters(function)) if _is_stream(p)}
        for name, index in streams.items():
            uses[usr, index] = _methods(function, name)
        for call, callee in source.calls(function):
            if callee is None or callee.get_usr() not in source.functions:
                continue
            for at, name in _named_arguments(call):
                if name in streams:
                    passed.append(((usr, streams[name]), (callee.get_usr(), at)))
    for _ in uses:  # To a fixed point: no chain is longer.
        for outer, inner in passed:
            uses[outer] |= uses.get(inner, set())
    return uses


def _parameters(function: Cursor) -> list[Cursor]:
    return [child for child in function.get_children() if child.kind == CursorKind.PARM_DECL]


def _methods(function: Cursor, name: str) -> set[str]:
    """Which of read and write are called on a parameter, templates' included."""
    found = set()
    for cursor in function.walk_preorder():
        if cursor.kind not in (CursorKind.MEMBER_REF_EXPR, CursorKind.CALL_EXPR):
            continue
        tokens = [token.spelling for token in cursor.get_tokens()][:3]
        if len(tokens) == 3 and tokens[:2] == [name, "."]:
            found |= {"read"} if tokens[2] in _READS else set()
            found |= {"write"} if tokens[2] in _WRITES else set()
    return found


def _named_arguments(call: Cursor) -> Iterator[tuple[int, str]]:
    """Arguments that are a name, with their places."""
    for at, argument in enumerate(call.get_arguments()):
        tokens = [] if argument is None else [token.spelling for token in argument.get_tokens()]
        if len(tokens) == 1:
            yield at, tokens[0]


def _check_dataflow(
    source: Source, function: Cursor, uses: dict[tuple[str, int], set[str]]
) -> Iterator[Finding]:
    processes = [call for call in _statements(function) if call.kind == CursorKind.CALL_EXPR]
    for name, declared, kind in _shared(function):
        writers, readers, users = [], [], []
        for call in processes:
            callee = callee_of(call)
            for at, argument in _named_arguments(call):
                if argument != name:
                    continue
                users.append(call)
                found = uses.get((callee.get_usr() if callee else "", at), set())
                writers += [call] if "write" in found else []
                readers += [call] if "read" in found else []
        file = Path(declared.location.file.name).resolve()
        where = (file, declared.location.line)
        if kind == "stream":
            for what, who in (("writer", writers), ("reader", readers)):
                if len(who) != 1:
                    yield Finding(*where, f"stream {name} has {len(who)} {what}s, not one")
            if len(writers) == 1 and writers == readers:
                yield Finding(*where, f"stream {name} is written and read by one process")
        elif kind == "array" and len(users) > 2:
            yield Finding(*where, f"array {name} is shared by {len(users)} processes, not two")
        elif kind == "port" and len(users) > 1:
            yield Finding(*where, f"port {name} has {len(users)} processes, not one")


def _statements(function: Cursor) -> list[Cursor]:
    """What stands directly in a function's body."""
    bodies = [c for c in function.get_children() if c.kind == CursorKind.COMPOUND_STMT]
    found = []
    for statement in bodies[0].get_children() if bodies else []:
        wrapped = list(statement.get_children())
        is_wrapper = statement.kind == CursorKind.UNEXPOSED_EXPR and len(wrapped) == 1
        found.append(wrapped[0] if is_wrapper else statement)
    return found


def _shared(function: Cursor) -> Iterator[tuple[str, Cursor, str]]:
    """Streams and arrays that a dataflow function declares, and the ports that it passes on."""
    for statement in _statements(function):
        if statement.kind != CursorKind.DECL_STMT:
            continue
        for variable in statement.get_children():
            if variable.kind != CursorKind.VAR_DECL:
                continue
            if _is_stream(variable):
                yield variable.spelling, variable, "stream"
            elif variable.type.kind == TypeKind.CONSTANTARRAY:
                yield variable.spelling, variable, "array"
    for parameter in _parameters(function):
        if parameter.type.kind == TypeKind.POINTER:
            yield parameter.spelling, parameter, "port"
