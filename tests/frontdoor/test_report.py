"""./nearkv report: one page, all of it in the file, that a browser shows without complaint."""

import re
from pathlib import Path

import pytest

from bench import curves, report
from nearkv.results import Goal, Result, write_results
from tests.frontdoor.browser import open_page, why_no_browser

FIXED = {"machine": "A CPU, 2 cores, 8 GiB", "commit": "0123456789ab"}
SAMPLE = [
    Result(
        name="cpu/attend/dense_128k",
        value=21.0,
        unit="GB/s",
        median=21.0,
        minimum=20.0,
        maximum=22.5,
        peer="streaming read",
        peer_value=24.0,
        goal=Goal(">=", 0.85, of="ratio"),
        extra={"peer_min": 23.0, "peer_max": 25.0},
        **FIXED,
    ),
    Result(name="cpu/top_k", value=0.5, unit="GB/s", goal=Goal(">=", 10), **FIXED),
    Result(name="codec/k", value=0.765, unit="of <bf16>", **FIXED),
]


@pytest.fixture
def page_path(tmp_path: Path) -> Path:
    write_results(tmp_path / "a.json", SAMPLE[:2])
    write_results(tmp_path / "b.json", SAMPLE[2:])
    path = tmp_path / "new" / "page.html"
    files = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert report.main([*files, "-o", str(path)]) == 0
    return path


@pytest.mark.quick
def test_the_page_has_head_table_marks_and_a_plot_per_group_and_unit(page_path: Path):
    page = page_path.read_text()
    for text in (FIXED["machine"], FIXED["commit"], "1 of 2 met", "of &lt;bf16&gt;"):
        assert text in page
    assert page.count('<td class="met">met</td>') == 1
    assert page.count('<td class="missed">missed</td>') == 1
    assert page.count("<tr>") == 1 + len(SAMPLE)
    assert re.findall("<h2>(.*)</h2>", page) == ["Figures", "codec, of &lt;bf16&gt;", "cpu, GB/s"]


@pytest.mark.quick
def test_the_page_refers_to_nothing_outside_itself(page_path: Path):
    page = re.sub(r"<script.*?</script>", "", page_path.read_text(), flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["'](?!data:).*?["']""", page) == []
    assert not re.search(r"<script[^>]+src", page_path.read_text())


@pytest.mark.quick
def test_a_goal_for_the_ratio_is_drawn_at_the_peers_share(tmp_path: Path):
    rows = [report._plot_row(0, result) for result in SAMPLE]
    assert [row["goal_at"] for row in rows] == [0.85 * 24.0, 10, None]
    assert (rows[0]["peer_low"], rows[0]["peer_high"]) == (23.0, 25.0)


@pytest.mark.quick
def test_curves_share_the_plot_that_they_name_and_no_bars(tmp_path: Path):
    def curve(line: str, values: list[float]) -> Result:
        drawn = {"plot": "Waits by <policy>", "line": line, "x_label": "requests/s"}
        extra = {"curve": drawn | {"x": [1, 2], "y": values}}
        return Result(name=f"traces/{line}", value=values[-1], unit="s", extra=extra, **FIXED)

    results = [*SAMPLE, curve("sarathi", [0.5, 9.25]), curve("k_lpm", [0.5, 7.75])]
    write_results(tmp_path / "a.json", results)
    path = tmp_path / "page.html"
    assert report.main([str(tmp_path / "a.json"), "-o", str(path)]) == 0
    page = path.read_text()
    titles = ["Figures", "codec, of &lt;bf16&gt;", "cpu, GB/s", "Waits by &lt;policy&gt;"]
    assert re.findall("<h2>(.*)</h2>", page) == titles
    assert page.count("<tr>") == 1 + len(results) + 1 + 2
    assert '<tr><td>k_lpm</td><td class="number">0.5</td><td class="number">7.75</td></tr>' in page
    ((title, members),) = curves.curves_of(results).items()
    assert title == "Waits by <policy>"
    plot = curves.line_plot(members)
    drawn = [line.data_source.data for line in plot.renderers]
    assert [one["y"] for one in drawn] == [[0.5, 9.25]] * 2 + [[0.5, 7.75]] * 2


@pytest.mark.quick
def test_a_table_of_curves_has_spreads_and_only_lines_with_the_same_x():
    def curve(line: str, xs: list[float]) -> Result:
        drawn = {"plot": "P", "line": line, "x_label": "%", "x": xs, "y": [0.5, 1.0]}
        extra = {"curve": drawn | {"spread": [0.25, 0.0]}}
        return Result(name=f"quality/{line}", value=1.0, unit="of all", extra=extra, **FIXED)

    table = curves.curve_table("P", [curve("a", [3, 5]), curve("b", [3, 5])])
    assert table.as_text().splitlines() == [
        "P, of all",
        "%          3     5",
        "a  0.5 ±0.25  1 ±0",
        "b  0.5 ±0.25  1 ±0",
    ]
    assert curves.curve_table("P", [curve("a", [3, 5]), curve("b", [3, 6])]) is None


@pytest.mark.quick
def test_by_default_everything_under_results_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_info:
        report.main([])
    assert exit_info.value.code == 2
    assert "./nearkv bench" in capsys.readouterr().err
    write_results(tmp_path / "results" / "a.json", SAMPLE)
    assert report.main([]) == 0
    assert (tmp_path / "results" / "report.html").exists()


@pytest.mark.quick
def test_a_file_that_is_no_results_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "wrong.json").write_text("{}")
    for name in ("wrong.json", "absent.json"):
        assert report.main([str(tmp_path / name), "-o", str(tmp_path / "page.html")]) == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_browser_shows_the_plots_with_no_network_and_no_error(page_path: Path):
    if why := why_no_browser():
        pytest.skip(why)
    with open_page(page_path) as page:
        page.wait_for(".plot .bk-Figure", 2)
        page.wait_for("canvas", 2)
        assert page.count(".plot") == 2
        assert page.errors == []
        assert page.requests == [page_path.as_uri()]


def test_the_browser_check_sees_errors_and_requests(tmp_path: Path):
    if why := why_no_browser():
        pytest.skip(why)
    path = tmp_path / "bad.html"
    path.write_text("<img src='http://example.org/a.png'><script>throw Error('seeded')</script>")
    with open_page(path) as page:
        page.wait_for("img", 1)
        assert any("seeded" in error for error in page.errors)
        assert "http://example.org/a.png" in page.requests
