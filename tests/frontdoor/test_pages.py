"""The repository's pages: links lead somewhere, folders explain themselves, the first is short."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.quick


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files are the repository's cannot be told")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def links_of(page: str) -> list[str]:
    """Where a page's links and pictures lead within the repository; addresses are left out."""
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", page)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors_of(page: str) -> set[str]:
    """The names that GitHub gives a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def find_dead_links(path: Path) -> list[str]:
    dead = []
    for link in links_of(path.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (
            anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))
        ):
            dead.append(link)
    return dead


def test_every_link_leads_to_a_file_or_a_heading():
    pages = tracked("*.md")
    assert len(pages) > 10
    dead = {str(page.relative_to(ROOT)): find_dead_links(page) for page in pages}
    assert {page: links for page, links in dead.items() if links} == {}


def test_a_dead_link_is_found(tmp_path: Path):
    page = tmp_path / "a.md"
    page.write_text("# One head\n[a](a.md#one-head) [b](b.md) ![c](c.png) [d](#two) [e](x://e)\n")
    assert find_dead_links(page) == ["b.md", "c.png", "#two"]


def test_every_top_level_folder_begins_its_page_with_a_sentence():
    folders = {path.relative_to(ROOT).parts[0] for path in tracked("*/*")}
    visible = sorted(folder for folder in folders if not folder.startswith("."))
    assert "bench" in visible
    for folder in visible:
        title, first = (ROOT / folder / "README.md").read_text(encoding="utf-8").split("\n\n")[:2]
        assert title == f"# {folder}"
        assert re.match(r"This folder [^|]*[.:]", first), folder


def test_the_first_page_fits_on_one_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 130
