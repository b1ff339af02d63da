"""Writes POLICIES.md from the heads and the parameter tables of the policies' sources.

python3 describe.py            writes it
python3 describe.py --check    exits with 1 if it is not what the sources say
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
_PAGE = _HERE / "POLICIES.md"
_HEAD = re.compile(r"\A// (?P<name>\w+): (?P<text>.*?)\n(?!//)", re.DOTALL)
_PARAMETER = re.compile(
    r'\{+"(?P<name>\w+)",\s*(?P<value>[^,]+),\s*(?P<least>[^,]+),\s*(?P<most>[^,]+),\s*'
    r'(?P<text>(?:"[^"]*"\s*)+)\}'
)
_INTRODUCTION = """# Retention policies

Written by `describe.py` from the policies' sources, of which each says here what it keeps, and why.
"""


def sections() -> Iterator[str]:
    """Of each policy, by name. ValueError for a policy without a head."""
    for source in sorted(_HERE.glob("*.cpp")):
        code = source.read_text(encoding="utf-8")
        if "public RetentionPolicy {" not in code:
            continue
        head = _HEAD.match(code)
        if head is None or head["name"] != source.stem:
            raise ValueError(f"{source.name} must begin with '// {source.stem}: what it keeps'")
        paragraphs = [part.strip() for part in re.sub(r"\n// ?", "\n", head["text"]).split("\n\n")]
        yield f"\n## {head['name']}\n\n" + "\n\n".join(_capital(part) for part in paragraphs) + "\n"
        rows = [_row(found) for found in _PARAMETER.finditer(code)]
        if rows:
            yield "\n| parameter | is | unless given | from, to |\n|---|---|---|---|\n"
            yield from rows


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
    page = _INTRODUCTION + "".join(sections())
    if not arguments.check:
        _PAGE.write_text(page, encoding="utf-8")
    elif not _PAGE.exists() or _PAGE.read_text(encoding="utf-8") != page:
        print(f"{_PAGE.name} is not what the sources say: run {Path(__file__).name}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
