"""bench/RESULTS.md: what ./nearkv report makes of the committed results files, and nothing else."""

from pathlib import Path

import pytest

from bench import report
from bench.markdown import render_markdown
from bench.result_file import ResultFile, read_results
from nearkv.results import Goal, Result, write_results

ROOT = Path(__file__).resolve().parents[2]
FIXED = {"machine": "A CPU, 2 cores", "commit": "0123456789ab"}

pytestmark = pytest.mark.quick


def test_the_committed_page_is_what_the_committed_files_make():
    page = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    paths = sorted((ROOT / "bench" / "results").glob("*.json"))
    assert paths
    made = render_markdown({f"results/{path.name}": read_results(path) for path in paths})
    assert page == made, "run ./nearkv report bench/results/*.json -o bench/RESULTS.md"


def test_a_page_that_is_named_md_is_written_in_markdown_and_links_to_its_files(tmp_path: Path):
    write_results(tmp_path / "results" / "a.json", [Result(name="a/x", value=2, unit="s", **FIXED)])
    page = tmp_path / "PAGE.md"
    assert report.main([str(tmp_path / "results" / "a.json"), "-o", str(page)]) == 0
    assert "- File: [`results/a.json`](results/a.json)\n" in page.read_text()


def test_a_table_has_one_unit_one_number_a_cell_and_no_empty_column():
    results = (
        Result(name="a/x", value=2.0, unit="GB/s", goal=Goal(">=", 3), **FIXED),
        Result(name="a/y", value=3.0, unit="s", peer="p|q", peer_value=2.0, **FIXED),
        Result(name="a/z", value=4.0, unit="GB/s", **FIXED),
    )
    page = render_markdown({"a.json": ResultFile(results, "2026-01-02", {"benches": ["a", "b"]})})
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert tables == [
        "| figure | value (GB/s) | goal | met |",
        "| :-- | --: | :-- | :-- |",
        "| `a/x` | 2 | >= 3 | missed |",
        "| `a/z` | 4 |  |  |",
        "| figure | value (s) | peer | peer (s) | ratio |",
        "| :-- | --: | :-- | --: | --: |",
        r"| `a/y` | 3 | p\|q | 2 | 1.5 |",
    ]
    for fact in (
        "## ./nearkv bench a b",
        "- Date: 2026-01-02",
        "- Machine: A CPU, 2 cores",
        "- Commit: 0123456789ab",
        "- Command: `./nearkv bench a b`",
        "- Goals: 0 of 1 met",
    ):
        assert f"\n{fact}\n" in page


@pytest.mark.parametrize("group", ["demo", "fault"])
def test_figures_of_the_demo_and_of_faults_name_their_own_command(group: str):
    result = Result(name=f"{group}/x", value=1.0, unit="s", **FIXED)
    page = render_markdown({"x.json": ResultFile((result,), "2026-01-02", {"texts": {}})})
    command = {"demo": "./nearkv demo", "fault": "./nearkv test fault"}[group]
    assert f"- Command: `{command}`\n" in page
