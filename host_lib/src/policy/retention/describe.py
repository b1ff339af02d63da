"""Writes POLICIES.md from the heads and parameter tables of the sources here, and the contract.

python3 describe.py            writes it
python3 describe.py --check    exits with 1 if it is not what the sources say
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
_PAGE = _HERE / "POLICIES.md"
_CONTRACT = _HERE.parents[3] / "rtl" / "abi" / "nearkv.toml"
_HEAD = re.compile(r"\A// (?P<name>\w+): (?P<text>.*?)\n(?!//)", re.DOTALL)
_PARAMETER = re.compile(
    r'\{+"(?P<name>\w+)",\s*(?P<value>[^,]+),\s*(?P<least>[^,]+),\s*(?P<most>[^,]+),\s*'
    r'(?P<text>(?:"[^"]*"\s*)+)\}'
)
_STATE = re.compile(
    r'RetentionPolicy\("\w+", \{[^}]*\}, \{(?P<needs>[^}]*)\},\s+(?P<columns>\d+),\s+\d+\)'
)
_COLUMN_BYTES, _SKETCH_BYTES = 4, 8
_INTRODUCTION = """# What of a sequence to keep

Written by `describe.py` from the sources here, of which each says what it does, and why, and from
the contract.
"""
_ROOMS = {
    "Policies: what a token is worth": "public RetentionPolicy {",
    "Budgets: how layers and heads share": "\nBudgetRule ",
    "What becomes of the rest": "\nStatus retain(",
    "Before the next step": "\nstd::vector<std::uint32_t> next_pages(",
}
_SELECTIONS = """
## Selection without eviction

Nothing is cut: each query reads what a TOPK picks for it (`Pool.top_k`, mode). Quest is DIGEST,
FIER and LongSight are SIGN; ATTEND's mode TAIL adds all other tokens at plane precision.

| mode | is |
|---|---|
"""


def page() -> str:
    """All of POLICIES.md."""
    parts = [_INTRODUCTION]
    for title, mark in _ROOMS.items():
        parts += [f"\n## {title}\n", *sections(mark)]
    with _CONTRACT.open("rb") as file:
        modes = tomllib.load(file)["enum"]["select"]
    rows = (f"| {name} | {mode['doc']} |\n" for name, mode in modes.items() if name != "doc")
    return "".join([*parts, _SELECTIONS, *rows])


def sections(mark: str) -> Iterator[str]:
    """Of each source with such a line, by name. ValueError for one without a head."""
    for source in sorted(_HERE.glob("*.cpp")):
        code = source.read_text(encoding="utf-8")
        if mark not in code:
            continue
        head = _HEAD.match(code)
        if head is None or head["name"] != source.stem:
            raise ValueError(f"{source.name} must begin with '// {source.stem}: what it keeps'")
        paragraphs = [part.strip() for part in re.sub(r"\n// ?", "\n", head["text"]).split("\n\n")]
        yield (
            f"\n### {head['name']}\n\n" + "\n\n".join(_capital(part) for part in paragraphs) + "\n"
        )
        if state := _STATE.search(code):
            yield f"\nState: {_state_bytes(state)} bytes a token of each (layer, KV head).\n"
        rows = [_row(found) for found in _PARAMETER.finditer(code)]
        if rows:
            yield "\n| parameter | is | unless given | from, to |\n|---|---|---|---|\n"
            yield from rows


def _state_bytes(found: re.Match[str]) -> int:
    sketches = _SKETCH_BYTES if "key_sketches" in found["needs"] else 0
    return _COLUMN_BYTES * int(found["columns"]) + sketches


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _row(found: re.Match[str]) -> str:
    text = "".join(re.findall(r'"([^"]*)"', found["text"]))
    value, least, most = (_number(found[part]) for part in ("value", "least", "most"))
    return f"| `{found['name']}` | {text} | {value} | {least}, {most} |\n"


def _number(code: str) -> str:
    base, shift = code.partition("<<")[::2]
    number = float(base.rstrip("Ff ")) if not shift else int(base) << int(shift)
    return f"{number:g}" if number < 1 << 20 else f"{number:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    arguments = parser.parse_args()
    text = page()
    if not arguments.check:
        _PAGE.write_text(text, encoding="utf-8")
    elif not _PAGE.exists() or _PAGE.read_text(encoding="utf-8") != text:
        print(f"{_PAGE.name} is not what the sources say: run {Path(__file__).name}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
