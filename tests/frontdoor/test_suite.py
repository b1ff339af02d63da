"""What ./nearkv test runs and says, tried on a small project of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.result_file import read_results
from tests.frontdoor.suite import ctest, sanitizers
from tests.frontdoor.suite.progress import StageClock
from tests.frontdoor.suite.stage import ROOT, Options

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(sample LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
enable_testing()
add_library(sample OBJECT host_lib/sample.cpp)
set_target_properties(sample PROPERTIES UNITY_BUILD ON)
function(add name command labels)
  add_test(NAME ${name} COMMAND sh -c "${command}")
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77)
endfunction()
add(fast "echo fine" "quick;abi")
add(usual "cat ${CMAKE_SOURCE_DIR}/said.txt$<SEMICOLON> exit ${STATUS}" "default;abi")
add(cardless "echo no card in this machine$<SEMICOLON> exit 77" "default;card")
add(hours "exit 1" "long;card")
"""
SOURCE = '#include "sample.hpp"\n\nint twice(int number) { return kTwo * number; }\n'
SAID = 'FAULT {"fault": "bit flip", "tried": 1200, "survived": 1199, "lost_objects": 1}\n'
HEADER = "#pragma once\n\nconstexpr int kTwo = 2;\n"
PYTHON_TESTS = '''"""Sample tests."""

import pytest


@pytest.mark.quick
def test_fast():
    pass


def test_usual():
    pytest.skip("no browser here")


@pytest.mark.long
def test_hours():
    raise AssertionError
'''

# In place of the programs that measure the RTL's tests: one bug of two survives, no Verilator.
MUTATE = """
import json, pathlib, sys
outcomes = [("lib/a.sv", "caught"), ("lib/b.sv", "survives"), ("page/c.sv", "hangs")]
mutants = [{"file": file, "outcome": outcome} for file, outcome in outcomes]
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps({"mutants": mutants}))
print("all 3 mutants")
sys.exit(1)
"""
# In place of the emulated card: its tests in two processes, each with one that is skipped.
GUEST = """
import sys, pytest
print(sys.argv[1:])
sys.exit(pytest.main(["-n2", "--dist", "loadfile", "tests/guest"]))
"""
COVERAGE = "import sys; print('skipped: no verilator'); sys.exit(3)"


class Project:
    """A tree with the suite, one source, and tests of every size."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ours = ROOT / "tests" / "frontdoor" / "suite"
        shutil.copytree(ours, root / ours.relative_to(ROOT), ignore=lambda *_: {"__pycache__"})
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, root)
        settings = (ROOT / "pyproject.toml").read_text()
        self.write("pyproject.toml", settings.replace('"build"', '"build", "tests/frontdoor"'))
        self.write("CMakeLists.txt", CMAKE)
        self.write("said.txt", SAID)
        self.write("host_lib/sample.cpp", SOURCE)
        self.write("host_lib/sample.hpp", HEADER)
        self.write("tests/sample/test_sample.py", PYTHON_TESTS)
        self.build()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, status: int = 0) -> None:
        folder = self.root / "build" / "release"
        configure = ["cmake", "-G", "Ninja", "-S", self.root, "-B", folder, f"-DSTATUS={status}"]
        for command in (configure, ["cmake", "--build", folder]):
            subprocess.run(command, check=True, capture_output=True)

    def test(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.frontdoor.suite", *arguments],
            cwd=self.root,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": f"{self.root}:{ROOT / 'engine_integration'}",
                "NEARKV_JOBS": "1",
            },
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def built_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def project(built_project: Project) -> Project:
    """The sample project as it was made."""
    built_project.write("host_lib/sample.cpp", SOURCE)
    built_project.write("host_lib/sample.hpp", HEADER)
    built_project.write("tests/sample/test_sample.py", PYTHON_TESTS)
    built_project.build()
    return built_project


def _summary(run: subprocess.CompletedProcess[str]) -> str:
    return run.stdout[run.stdout.index("== summary") :]


def test_the_default_size_names_what_it_skips_and_what_only_long_runs(project: Project):
    run = project.test()
    summary = _summary(run)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\n  cardless: no card in this machine\n" in summary
    assert "test_usual: no browser here\n" in summary
    long_only = summary[summary.index("only --long runs:") :]
    assert "\n  hours\n" in long_only
    assert "::test_hours\n" in long_only
    assert "100% tests passed, 0 tests failed out of 3" in summary
    assert "1 passed, 1 skipped in" in summary
    assert summary.endswith("all passed\n")


def test_faults_make_a_table_and_a_results_file(project: Project):
    summary = _summary(project.test())
    assert "fault     tried  survived  lost\nbit flip  1,200     1,199     1\n" in summary
    (result,) = read_results(project.root / "results" / "fault.json").results
    assert (result.name, result.value, result.met) == ("fault/bit_flip", 1, False)
    assert result.extra == {"fault": "bit flip", "tried": 1200, "survived": 1199}


def test_the_quick_size_runs_only_what_is_marked_quick(project: Project):
    summary = _summary(project.test("--quick"))
    assert "0 tests failed out of 1" in summary
    assert "1 passed in" in summary
    assert "only --long runs" not in summary


def test_the_long_size_runs_everything_and_fails_where_one_fails(project: Project):
    run = project.test("--long")
    summary = _summary(run)
    assert run.returncode == 1
    assert "1 tests failed out of 4" in summary
    assert "4 - hours (Failed)" in summary
    assert "1 failed, 1 passed, 1 skipped" in summary
    assert "mutation: no tests/rtl/strength" in summary
    assert "coverage: no tests/rtl/strength" in summary
    assert summary.endswith("FAILED: ctest, pytest\n")


def test_the_long_size_of_the_rtl_fails_where_a_seeded_bug_survives(project: Project):
    project.write("tests/rtl/strength/mutate.py", MUTATE)
    project.write("tests/rtl/strength/coverage.py", COVERAGE)
    try:
        run = project.test("rtl", "--long")
    finally:
        shutil.rmtree(project.root / "tests" / "rtl")
    summary = _summary(run)
    assert run.returncode == 1
    assert "coverage: no verilator" in summary
    assert "all 3 mutants\nwritten: results/rtl_mutation.json" in summary
    assert summary.endswith("FAILED: mutation\n")
    results = read_results(project.root / "results" / "rtl_mutation.json").results
    assert {result.name: result.value for result in results} == {
        "rtl_mutation/lib": 50,
        "rtl_mutation/page": 100,
    }


def test_the_guests_tests_run_by_themselves_and_are_in_the_summary(project: Project):
    project.write("emulator/qemu/__main__.py", GUEST)
    for name in ("first", "second"):
        project.write(f"tests/guest/test_{name}.py", PYTHON_TESTS)
    try:
        default, debug = project.test("guest"), project.test("--sanitize", "guest")
    finally:
        for name in ("emulator", "tests/guest"):
            shutil.rmtree(project.root / name)
    summary = _summary(default)
    assert default.returncode == 0, default.stdout + default.stderr
    assert "['--test']" in default.stdout
    assert "== pytest" not in default.stdout
    assert "2 passed, 2 skipped" in summary
    assert summary.count("no browser here") == 2
    assert summary.count("::test_hours") == 2
    assert "['--test', '--debug-kernel']" in debug.stdout


def test_sanitizers_are_chosen_by_their_names(project: Project):
    run = project.test("--sanitize", "abi")
    assert run.returncode == 2
    assert "nothing is called abi; there are: asan-ubsan, tsan, fuzz, guest" in run.stderr
    assert list(sanitizers.stages(())) == ["asan-ubsan", "tsan"]
    assert list(sanitizers.stages(("tsan", "fuzz"))) == ["tsan", "fuzz"]


def test_the_engines_tests_run_side_by_side_but_not_among_the_quick(project: Project):
    for name in ("first", "second"):
        project.write(f"tests/engines/test_{name}.py", PYTHON_TESTS)
    try:
        default, quick = project.test("engines"), project.test("--quick", "engines")
    finally:
        shutil.rmtree(project.root / "tests/engines")
    assert default.returncode == 0, default.stdout + default.stderr
    assert "== engines" in default.stdout
    assert "== pytest" not in default.stdout
    assert "1 worker" in default.stdout
    assert "2 passed, 2 skipped" in _summary(default)
    assert "== engines" not in quick.stdout


def test_a_filter_selects_labels_and_folders(project: Project):
    label = project.test("abi").stdout
    assert "0 tests failed out of 2" in label
    assert "== lint" not in label
    assert "== pytest" not in label
    # What is tested may be called as its tests are.
    (project.root / "sample").mkdir(exist_ok=True)
    folder = project.test("sample").stdout
    assert "1 passed, 1 skipped" in folder
    assert "== ctest" not in folder
    both = project.test("card", "tests/sample/test_sample.py::test_fast").stdout
    assert "0 tests failed out of 1" in both
    assert "1 passed in" in both


def test_an_unknown_filter_is_refused_with_those_there_are(project: Project):
    run = project.test("nothing_like_it")
    assert run.returncode == 2
    assert "nothing is called nothing_like_it; there are: lint, abi, card" in run.stderr


def test_a_failing_test_fails_the_suite(project: Project):
    project.build(status=3)
    run = project.test("abi")
    assert run.returncode == 1
    assert "2 - usual (Failed)" in _summary(run)


@pytest.mark.parametrize("folder", ["sample", "engines"])
def test_a_python_test_of_two_sizes_is_refused(project: Project, folder: str):
    file = f"tests/{folder}/test_two_sizes.py"
    project.write(file, f"import pytest\n\npytestmark = pytest.mark.default\n\n{PYTHON_TESTS}")
    try:
        run = project.test(folder)
    finally:
        (project.root / file).unlink()
        shutil.rmtree(project.root / "tests/engines", ignore_errors=True)
    assert run.returncode == 1
    assert "marked ['default', 'quick']; at most one size" in run.stdout


@pytest.mark.quick
@pytest.mark.parametrize("labels", [{"abi"}, {"quick", "long", "abi"}])
def test_a_registered_test_without_exactly_one_size_fails_the_stage(labels: set[str]):
    outcome = ctest.run(Options(), {"sized": {"quick"}, "wrong": labels}, [])
    assert not outcome.ok
    assert outcome.closing[0].endswith(": wrong")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "[ RUN ] A.B\n/x/a.cpp:2: Skipped\nneeds\na card\n\n[  SKIPPED ] A.B (0 ms)\n",
            "needs a card",
        ),
        ("looking\nno verilator here\n", "no verilator here"),
        ("", ""),
    ],
)
def test_the_reason_of_a_skip_is_found_in_the_output(output: str, reason: str):
    assert ctest.find_reason(output) == reason


def test_a_source_is_linted_again_only_when_it_or_its_headers_change(project: Project):
    project.test("lint")
    again = project.test("lint")
    assert again.returncode == 0, again.stdout
    assert "clang-tidy: 0 files checked now, 0 left" in again.stdout
    project.write("host_lib/sample.hpp", HEADER.replace("= 2", "= 3"))
    project.build()
    assert "clang-tidy: 1 files checked now" in project.test("lint").stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "check"),
    [
        ("host_lib/sample.cpp", "int number", "int  number", "clang-format"),
        ("host_lib/sample.cpp", "int twice", "int Twice", "clang-tidy"),
        ("host_lib/sample.hpp", "kTwo = 2", "kTwo = 2, two = 2", "clang-tidy"),
        (
            "tests/sample/test_sample.py",
            "import pytest",
            "import os\n\nimport pytest",
            "ruff check",
        ),
        ("tests/sample/test_sample.py", "    pass", "    pass;", "ruff format"),
    ],
)
def test_each_check_finds_what_is_its_to_find(
    project: Project, name: str, old: str, new: str, check: str
):
    text = (project.root / name).read_text()
    project.write(name, text.replace(old, new))
    project.build()
    run = project.test("lint")
    assert run.returncode == 1
    assert check in run.stdout[run.stdout.index("format and lint: ") :].split(" failed")[0]


INTERRUPTING = """\
import os
import pathlib
import signal
import time

import pytest


@pytest.mark.quick
def test_it_is_interrupted_once():
    marker = pathlib.Path("build/interrupt")
    if marker.exists():
        marker.unlink()
        # Of the suite, of pytest, and of pytest's worker, in which this runs, as by a terminal.
        pytest_process = os.getppid()
        status = pathlib.Path(f"/proc/{pytest_process}/status").read_text()
        suite = int(status.split("PPid:")[1].split()[0])
        for process in (suite, pytest_process):
            os.kill(process, signal.SIGINT)
        time.sleep(60)
"""


def test_an_interrupted_run_goes_on_behind_what_passed_until_a_file_changes(project: Project):
    project.write(".gitignore", "/build/\n/results/\n__pycache__/\n.pytest_cache/\n.ruff_cache/\n")
    subprocess.run(["git", "init", "--quiet", project.root], check=True)
    project.write("tests/sample/test_sample.py", INTERRUPTING)
    marker = project.root / "build" / "interrupt"
    for _ in range(2):
        marker.touch()
        interrupted = project.test("--quick")
        assert interrupted.returncode == 130, interrupted.stderr
    assert "== ctest: passed before the interruption" in interrupted.stdout
    assert "== pytest: passed" not in interrupted.stdout

    project.write("tests/sample/test_sample.py", INTERRUPTING.replace("sleep(60)", "sleep(61)"))
    whole = project.test("--quick")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "before the interruption" not in whole.stdout
    assert not (project.root / "build" / "interrupted-test.json").exists()


def test_the_time_left_counts_what_is_still_to_run():
    clock = StageClock("quick", ["lint", "pytest"])
    usual_s = json.loads((ROOT / "tests/frontdoor/suite/usual_s.json").read_text())["quick"]
    assert clock.left_s() == usual_s["lint"] + usual_s["pytest"]
    with clock.stage("lint"):
        pass
    assert clock.left_s() < usual_s["pytest"] / 10  # What ended took no time: the pace is as fast.
