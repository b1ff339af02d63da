"""Size expressions of the page layout: unsigned integers, `+`, `*`, and `/` by a constant."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping


class ExpressionError(Exception):
    """The text is not a size expression."""


class Expression:
    """A size in bytes over named quantities, printable in every output language."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text, mode="eval").body
        except SyntaxError as error:
            raise ExpressionError(f"`{text}` is not an expression") from error
        self._check(self._tree)

    @property
    def names(self) -> set[str]:
        return {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The size, division rounding down."""
        return _evaluate(self._tree, values)

    def render(self, rename: Callable[[str], str], divide: str = "/") -> str:
        """The expression in a language whose integer division is written `divide`."""
        return _render(self._tree, rename, divide)

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.Name():
                return
            case ast.Constant(value=int(value)) if not isinstance(value, bool) and value >= 0:
                return
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
                self._check(left)
                self._check(right)
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int(value))) if value:
                self._check(left)
            case _:
                raise ExpressionError(
                    f"`{self.text}`: only numbers, names, `+`, `*` and `/` by a constant may stand"
                )


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _evaluate(left, values), _evaluate(right, values)
            if isinstance(operator, ast.Add):
                return a + b
            return a * b if isinstance(operator, ast.Mult) else a // b
    raise AssertionError("checked when the expression was made")


def _render(node: ast.expr, rename: Callable[[str], str], divide: str) -> str:
    match node:
        case ast.Name(id=name):
            return rename(name)
        case ast.Constant(value=int(value)):
            return str(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{_render(left, rename, divide)} + {_render(right, rename, divide)}"
        case ast.BinOp(left=left, op=operator, right=right):
            symbol = "*" if isinstance(operator, ast.Mult) else divide
            return f"{_factor(left, rename, divide)} {symbol} {_right(right, rename, divide)}"
    raise AssertionError("checked when the expression was made")


def _factor(node: ast.expr, rename: Callable[[str], str], divide: str) -> str:
    text = _render(node, rename, divide)
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    return f"({text})" if is_sum else text


def _right(node: ast.expr, rename: Callable[[str], str], divide: str) -> str:
    text = _render(node, rename, divide)
    return f"({text})" if isinstance(node, ast.BinOp) else text
