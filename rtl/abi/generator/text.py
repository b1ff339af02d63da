"""Small pieces of text that every emitter shares."""

from __future__ import annotations

import re
import textwrap

from .model import Field

BANNER = "Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit."
WIDTH = 100


def pascal(name: str) -> str:
    """`MAX_TOP_K` or `max_top_k` as `MaxTopK`."""
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))


def line_comment(prefix: str, text: str, width: int = WIDTH) -> list[str]:
    """The text as lines of at most `width` columns, each starting with the prefix."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fold(line: str, indent: str) -> list[str]:
    """The line of code, split behind `||`, `&&` or `,` where it is too long."""
    lines: list[str] = []
    for part in re.split(r"(?<=\|\|) |(?<=&&) |(?<=,) ", line):
        if lines and len(f"{lines[-1]} {part}") <= WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}{part}" if lines else part)
    return lines


def field_text(field: Field) -> str:
    """A field's documentation with its rule behind it."""
    rule = rule_text(field)
    return f"{field.doc} [{rule}]" if rule and rule != field.doc.rstrip(".") else field.doc


def rule_text(field: Field) -> str:
    """What the field's checker demands, in words; empty if every value will do."""
    if field.is_reserved:
        return ""
    rules = []
    if field.values:
        rules.append(" or ".join(value.name for value in field.values))
    elif field.enum:
        rules.append(f"a value of {field.enum.name}")
    if field.flags:
        rules.append(f"flags of {field.flags.name}")
    low = field.min.name or str(field.min.value) if field.min and field.min.value else ""
    high = field.max.name or str(field.max.value) if field.max else ""
    if low and high:
        rules.append(f"{low} to {high}")
    elif low:
        rules.append(f"at least {low}")
    elif high:
        rules.append(f"at most {high}" if high != "0" else "0")
    if field.multiple:
        rules.append(f"a multiple of {field.multiple.name or field.multiple.value}")
    return ", ".join(rules)
