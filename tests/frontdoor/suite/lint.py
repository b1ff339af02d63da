"""Format and lint: clang-format, clang-tidy and ruff, at the versions of requirements.txt.

clang-tidy takes seconds a file, so a file that passed is not checked again until it, one of our
headers that it includes, its compiler flags or the checks change. What was changed last is checked
first; what does not fit into the size's time budget is left to the next run, and said.
"""

import hashlib
import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .stage import BUILD, ROOT, Options, Outcome, our_files, stream, tool

_FOLDER = ROOT / "build" / "lint"
_CACHE = _FOLDER / "clang-tidy.json"
_TIDY_BUDGET_S = {"quick": 20.0, "default": 40.0, "long": float("inf")}
_HISTORY = 200
"""Commits that are asked for what was changed last."""
_BATCHED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
"""What CMake writes into a batch for each of its sources."""
_FORMATTED = (".c", ".cc", ".cpp", ".h", ".hpp")


def run(options: Options) -> Outcome:
    """Checks every file of ours; later checks run even when an earlier one failed."""
    checks = {
        "clang-format": _clang_format(),
        "ruff check": _passes([tool("ruff"), "check", "--quiet", "."]),
        "ruff format": _passes([tool("ruff"), "format", "--check", "--quiet", "."]),
    }
    checked, left, failed = _clang_tidy(options)
    checks["clang-tidy"] = not failed
    bad = [name for name, ok in checks.items() if not ok]
    text = f"format and lint: {', '.join(bad)} failed" if bad else "format and lint: passed"
    text += f"; clang-tidy: {checked} files checked now, {left} left to the next run"
    return Outcome("lint", not bad, [text])


def _passes(command: list[str]) -> bool:
    return stream(command)[0] == 0


def _clang_format() -> bool:
    sources = [path for path in our_files() if path.suffix in _FORMATTED and not _generated(path)]
    command = [tool("clang-format"), "--dry-run", "--Werror", *map(str, sources)]
    return not sources or _passes(command)


def _generated(path: Path) -> bool:
    """Whether the file's first line says that a program wrote it: its format is that program's."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return "do not edit" in file.readline().lower()


def _clang_tidy(options: Options) -> tuple[int, int, list[str]]:
    """How many files were checked and left, and the names of those with findings."""
    passed = json.loads(_CACHE.read_text()) if _CACHE.exists() else {}
    digests = _digests()
    due = sorted(
        (name for name, digest in digests.items() if passed.get(name) != digest), key=_age()
    )
    deadline_s = time.monotonic() + _TIDY_BUDGET_S[options.size]
    checked, failed = 0, []

    def check(name: str) -> str | None:
        """The findings; None when the budget was spent before the file's turn."""
        if time.monotonic() > deadline_s:
            return None
        print(f"clang-tidy {name}\n", end="", flush=True)
        command = [tool("clang-tidy"), "-p", str(_FOLDER), "--quiet", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            for name, findings in zip(due, pool.map(check, due), strict=True):
                if findings is None:
                    continue
                checked += 1
                if findings:
                    print(findings, flush=True)
                    failed.append(name)
                else:
                    passed[name] = digests[name]
    finally:
        _CACHE.write_text(json.dumps({name: passed[name] for name in digests if name in passed}))
    return checked, len(due) - checked, failed


def _age() -> Callable[[str], int]:
    """Orders files by when they were changed: not committed yet, then the newest commit first."""
    git = ["git", "-C", str(ROOT)]
    changed = subprocess.run([*git, "diff", "--name-only", "HEAD"], capture_output=True, text=True)
    log = ["log", f"-{_HISTORY}", "--name-only", "--format="]
    committed = subprocess.run([*git, *log], capture_output=True, text=True)
    names = dict.fromkeys((changed.stdout + committed.stdout).splitlines())
    ages = {name: age for age, name in enumerate(names)}
    return lambda name: ages.get(name, len(ages))


def _digests() -> dict[str, str]:
    """For each source of ours in the build, a hash of all that clang-tidy's verdict depends on."""
    commands = _compile_commands()
    # clang-tidy reads it too.
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / "compile_commands.json").write_text(json.dumps(commands))
    ours = set(our_files())
    config = b"".join(path.read_bytes() for path in sorted(ours) if path.name == ".clang-tidy")
    version = subprocess.run([tool("clang-tidy"), "--version"], capture_output=True).stdout
    included = _included_headers()
    digests = {}
    for entry in commands:
        source = Path(entry["file"])
        if source not in ours:
            continue
        arguments = shlex.split(entry["command"])
        target = arguments[arguments.index("-o") + 1]
        digest = hashlib.sha256(config + version + entry["command"].encode())
        for path in sorted({source, *included.get(target, [])}):
            digest.update(path.read_bytes() if path.exists() else b"")
        name = str(source.relative_to(ROOT))
        digests[name] = digests.get(name, "") + digest.hexdigest()
    return digests


def _compile_commands() -> list[dict[str, str]]:
    """How each source is compiled, those that the build compiles in batches one by one."""
    database = BUILD / "compile_commands.json"
    commands = []
    for entry in json.loads(database.read_text()) if database.exists() else []:
        sources = [entry["file"]]
        if "/Unity/" in entry["file"]:
            sources = _BATCHED.findall(Path(entry["file"]).read_text())
        commands += [
            entry | {"file": source, "command": entry["command"].replace(entry["file"], source)}
            for source in sources
        ]
    return commands


def _included_headers() -> dict[str, list[Path]]:
    """Our own headers that each object file was compiled from, as Ninja recorded them."""
    listing = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True)
    headers: dict[str, list[Path]] = {}
    for block in listing.stdout.split("\n\n"):
        head, *paths = block.splitlines() or [""]
        resolved = ((BUILD / path.strip()).resolve() for path in paths)
        headers[head.partition(": #deps")[0]] = [
            path for path in resolved if path.is_relative_to(ROOT)
        ]
    return headers
