"""./nearkv itself: its manual, and its set-up on machines made up of stand-in programs.

Each test has a folder with a copy of the scripts and stand-ins for apt and its kin, so that
nothing is installed on this machine.
"""

import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("serve", "stat", "ls", "top", "inspect", "verify", "defrag")
COMMANDS = ("setup", "build", "test", "bench", "plan", "report", "demo", "doctor", "help", *TOOLS)
COMMON_FLAGS = ("-j N", "--jobs N", "--device URI", "-h", "--help")
FLAGS = {
    "test": ("--quick", "--long", "--sanitize", "FILTER"),
    "bench": ("NAME", "--json FILE", "--device URI", "--long"),
    "report": ("FILE", "-o PAGE"),
    "doctor": ("--json",),
    "build": ("PRESET", "--profile"),
    "setup": ("SET",),
}
# A table of few sets. What pip is asked for stands in every new environment already.
TABLE = """
[sets.core]
what = "the library"
apt = ["build-essential", "cmake", "git", "libcxl-dev"] # a remark
apt_optional = ["ccache"]
[sets.python]
what = "the Python package"
needs = ["core"]
pip = ["pip"]
[sets.serve]
what = "the daemon"
needs = ["core"]
apt = ["libcli11-dev"]
[sets.rtl]
what = "the engine, simulated"
apt = [
  "verilator",
  "lld", "chromium",
]
[sets.firmware]
what = "the firmware"
needs = ["rtl"]
pip = ["no-such-package"]
[commands.demo]
sets = ["python"]
[commands.tools]
sets = ["serve"]
targets = ["nearkv_cli"]
[commands.report]
sets = ["python"]
[commands.build]
sets = ["python", "serve"]
also = ["rtl"]
targets = ["all"]
[commands.test]
sets = ["python", "serve"]
also = ["firmware"]
targets = ["all"]
"""
INSTALLED = "echo installed"
NOT_INSTALLED = "exit 1"


class Machine:
    """A folder with the scripts, and a PATH whose first programs are stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.programs = folder / "programs"
        self.log = folder / "calls"
        self.root.mkdir()
        self.programs.mkdir()
        shutil.copy(ROOT / "nearkv", self.root)
        shutil.copytree(ROOT / "tools", self.root / "tools")
        (self.root / "sets.toml").write_text(TABLE)
        (self.root / "requirements.txt").touch()
        (self.root / "CMakePresets.json").touch()
        self.environment = os.environ | {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "CALLS": str(self.log),
        }
        for name in ("NEARKV_JOBS", "NEARKV_DEVICE", "NEARKV_NO_PACKAGES"):
            self.environment.pop(name, None)
        self.provide("id", "echo 0")
        self.provide("sudo", "exit 1")
        self.provide("apt-get", "exit 100")
        self.provide("tar", "exit 0")

    def provide(self, name: str, body: str) -> None:
        """Puts a program on the PATH that records its arguments and then runs `body`."""
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "$CALLS"\n{body}\n')
        path.chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "nearkv", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )

    def calls(self, start: str) -> list[str]:
        text = self.log.read_text() if self.log.exists() else ""
        return [line for line in text.splitlines() if line.startswith(start)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def nearkv(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "nearkv", *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.quick
@pytest.mark.parametrize("command", COMMANDS)
def test_every_page_of_the_manual_explains_every_flag(command: str):
    if command == "demo" and find_spec("nearkv.demo") is None:
        pytest.skip("the demo is not part of this tree")
    page = nearkv(command, "--help")
    assert page.returncode == 0, page.stderr
    assert page.stdout.startswith("usage: ./nearkv")
    for flag in (*FLAGS.get(command, ()), *COMMON_FLAGS):
        assert flag in page.stdout
    assert nearkv("help", command).stdout == page.stdout


@pytest.mark.quick
@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",)])
def test_help_names_every_command(arguments: tuple[str, ...]):
    page = nearkv(*arguments)
    assert page.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", page.stdout, re.MULTILINE)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("tset",), "no command 'tset' (did you mean: test top?); all of them: ./nearkv help"),
        (("frobnicate",), "no command 'frobnicate'; all of them: ./nearkv help"),
        (("help", "frobnicate"), "no command 'frobnicate'"),
        (("build", "-j", "many"), "--jobs needs a number, not 'many'"),
        (("build", "-j"), "--jobs needs a number"),
        (("bench", "--device"), "--device needs a URI"),
    ],
)
def test_wrong_usage_is_status_2_with_a_hint(arguments: tuple[str, ...], hint: str):
    refusal = nearkv(*arguments)
    assert refusal.returncode == 2
    assert hint in refusal.stderr
    assert refusal.stdout == ""


@pytest.mark.quick
@pytest.mark.parametrize("user_id", [0, 1000])
@pytest.mark.parametrize("command", ["setup", "build", "test", "serve", "demo"])
def test_without_rights_the_missing_packages_are_named(
    machine: Machine, user_id: int, command: str
):
    machine.provide("id", f"echo {user_id}")
    machine.provide("dpkg-query", 'case "$*" in *" git") echo installed ;; *) exit 1 ;; esac')
    refusal = machine.run(command)
    assert refusal.returncode == 1
    missing = re.search(
        r"packages are missing, and cannot be installed from here: (.*)", refusal.stderr
    )
    names = missing[1].split()
    assert {"build-essential", "cmake", "libcxl-dev"} <= set(names)
    assert ("libcli11-dev" in names) == (command != "demo")
    assert "git" not in names
    line = f"sudo apt-get update && sudo apt-get install --no-install-recommends {missing[1]}"
    assert line in refusal.stderr
    assert bool(machine.calls("apt-get")) == (user_id == 0)
    assert not (machine.root / ".venv").exists()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("demo", "--json"), "argument --json: expected one argument"),
        (("bench", "nosuch"), "no bench nosuch; there are: adapter"),
        (("bench", "cpu", "--nosuch"), "unrecognized arguments: --nosuch"),
        (("report", "--nosuch"), "unrecognized arguments: --nosuch"),
        (("test", "--nosuch"), "unrecognized arguments: --nosuch"),
        (("vm", "--devices", "9"), "1 to 4 devices"),
        (("xrt-emu",), "the following arguments are required: --top"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_installed(
    machine: Machine, arguments: tuple[str, ...], hint: str
):
    for folder in ("bench", "emulator", "engine_integration", "hls", "tests"):
        (machine.root / folder).symlink_to(ROOT / folder)
    machine.provide("dpkg-query", NOT_INSTALLED)
    refusal = machine.run(*arguments)
    assert refusal.returncode == 2
    assert hint in refusal.stderr
    assert machine.calls("dpkg-query") == []


@pytest.mark.quick
def test_a_system_without_apt_is_told_what_to_provide(machine: Machine):
    (machine.programs / "apt-get").unlink()
    for directory in os.environ["PATH"].split(":"):
        for program in Path(directory).glob("*"):
            link = machine.programs / program.name
            if program.name != "apt-get" and not link.exists():
                link.symlink_to(program)
    machine.environment["PATH"] = str(machine.programs)
    refusal = machine.run("setup", "core")
    assert refusal.returncode == 1
    assert "there is no apt-get here" in refusal.stderr
    assert "NEARKV_NO_PACKAGES=1: build-essential cmake" in refusal.stderr


def test_what_is_done_is_not_done_again(machine: Machine):
    machine.provide("dpkg-query", INSTALLED)
    first = machine.run("setup", "python")
    assert first.returncode == 0, first.stderr
    assert "installing Python packages: done" in first.stderr
    assert machine.calls("apt-get") == []
    second = machine.run("setup", "python")
    assert (second.returncode, second.stderr) == (0, "nearkv: set up: core python\n")

    (machine.root / "requirements.txt").write_text("# changed\n")
    third = machine.run("setup", "python")
    assert "installing Python packages: done" in third.stderr
    assert "making .venv" not in third.stderr


def test_only_what_is_missing_and_exists_is_installed(machine: Machine):
    machine.provide(
        "dpkg-query", 'case "$*" in *" git" | *" clang") echo installed ;; *) exit 1 ;; esac'
    )
    machine.provide("apt-get", "exit 0")
    machine.provide(
        "apt-cache",
        """shift
        for name; do
          case $name in
            libcxl-dev) ;;
            lld) printf 'lld:\\n  Candidate: (none)\\n' ;;
            chromium) printf 'chromium:\\n  Candidate: 2:1snap1-0ubuntu2\\n' ;;
            *) printf '%s:\\n  Candidate: 1.0\\n' "$name" ;;
          esac
        done""",
    )
    machine.provide("cmake", "exit 0")
    done = machine.run("build")
    assert done.returncode == 0, done.stderr
    update, required, optional = machine.calls("apt-get")
    assert update == "apt-get update"
    assert {"cmake", "libcli11-dev"} <= set(required.split())
    assert {"verilator", "ccache"} <= set(optional.split())
    installed = {*required.split(), *optional.split()}
    assert installed.isdisjoint({"git", "libcxl-dev", "lld", "chromium"})


def test_sudo_is_used_by_those_who_are_not_root(machine: Machine):
    machine.provide("id", "echo 1000")
    machine.provide("sudo", 'case "$1" in -n) exit 0 ;; *) exec "$@" ;; esac')
    machine.provide("dpkg-query", NOT_INSTALLED)
    machine.provide("apt-get", "exit 0")
    done = machine.run("setup", "core")
    assert done.returncode == 0, done.stderr
    assert machine.calls("sudo apt-get update")
    assert all("DEBIAN_FRONTEND=noninteractive apt-get" in c for c in machine.calls("sudo env"))


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_are_built_and_passed_on(machine: Machine, tool: str):
    machine.provide("dpkg-query", INSTALLED)
    machine.provide("cmake", "exit 0")
    executable = machine.root / "build/release/bin/nearkv"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\necho tool $*; exit 3\n")
    executable.chmod(0o755)
    done = machine.run(tool, "pool", "--json")
    assert (done.returncode, done.stdout) == (3, f"tool {tool} pool --json\n"), done.stderr
    assert any("--target nearkv_cli" in call for call in machine.calls("cmake --build"))
    assert any("-DNEARKV_SETS=core;serve" in call for call in machine.calls("cmake -S"))
    assert not (machine.root / ".venv").exists()


def test_a_build_folder_keeps_the_parts_that_earlier_commands_asked_for(machine: Machine):
    machine.provide("dpkg-query", INSTALLED)
    machine.provide("cmake", "mkdir -p build/release; touch build/release/build.ninja")
    machine.environment["PWD"] = str(machine.root)
    machine.run("stat")
    machine.run("build")
    machine.run("stat")
    configured = [call.split("NEARKV_SETS=")[1].split()[0] for call in machine.calls("cmake -S")]
    assert configured[0] == "core;serve"
    assert set(configured[1].split(";")) == {"core", "python", "rtl", "serve"}
    assert all(set(words.split(";")) >= {"rtl"} for words in configured[1:])


def test_a_set_that_cannot_be_had_is_left_out_where_a_command_can_do_without(machine: Machine):
    machine.provide("dpkg-query", INSTALLED)
    machine.provide("cmake", "exit 1")
    machine.environment["PIP_NO_INDEX"] = "1"
    done = machine.run("test")
    assert "trying without the sets that can be done without: rtl firmware" in done.stderr
    assert machine.calls("cmake -S")
    refusal = machine.run("setup", "firmware")
    assert refusal.returncode == 1
    assert "a package index, is out of reach" in refusal.stderr


@pytest.mark.quick
def test_an_unknown_set_is_wrong_usage(machine: Machine):
    refusal = machine.run("setup", "gpu")
    assert refusal.returncode == 2
    assert "no set 'gpu'; there are: core python serve rtl firmware all" in refusal.stderr


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("E: Could not get lock /var/lib/dpkg/lock-frontend", "another program is installing"),
        ("E: You don't have enough free space: No space left on device", "the disk is full"),
        ("E: Failed to fetch x: Temporary failure resolving", "the network, or a package index"),
    ],
)
def test_a_failure_of_apt_says_what_mends_it(machine: Machine, said: str, advice: str):
    machine.provide("dpkg-query", NOT_INSTALLED)
    machine.provide("apt-cache", "shift; for n; do printf '%s:\\n  Candidate: 1\\n' $n; done")
    machine.provide("apt-get", f'echo "{said}"; exit 100')
    refusal = machine.run("setup", "core")
    assert refusal.returncode == 1
    assert advice in refusal.stderr


def test_a_half_made_environment_is_made_anew(machine: Machine):
    machine.provide("dpkg-query", INSTALLED)
    broken = machine.root / ".venv" / "bin"
    broken.mkdir(parents=True)
    (broken / "python").symlink_to(machine.root / "nowhere")
    done = machine.run("setup", "python")
    assert done.returncode == 0, done.stderr
    assert "making .venv: done" in done.stderr


@pytest.mark.quick
def test_an_older_python_is_told_what_to_do(machine: Machine):
    machine.provide("dpkg-query", INSTALLED)
    machine.provide("python3", '[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    script = machine.root / "tools" / "setup.sh"
    script.write_text(script.read_text().replace("/usr/bin/python3 python3;", "python3;"))
    refusal = machine.run("setup", "python")
    assert refusal.returncode == 1
    assert "needs Python 3.11 or newer" in refusal.stderr
    assert "here is Python 3.9.2" in refusal.stderr


@pytest.mark.quick
def test_the_table_holds_together():
    table = tomllib.loads((ROOT / "sets.toml").read_text())
    names = set(table["sets"])
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    page = nearkv("setup", "--help").stdout
    for name, entry in table["sets"].items():
        assert set(entry.get("needs", ())) <= names, name
        assert set(entry.get("pip", ())) <= set(pins), name
        # The page is what the script, which has no TOML, reads from the table.
        assert entry["what"] in page
        assert set(entry.get("apt", []) + entry.get("apt_optional", [])) <= set(page.split())
    for command, entry in table["commands"].items():
        assert {*entry["sets"], *entry.get("also", ())} <= names, command


def test_a_failed_installation_of_python_packages_ends_the_call_and_is_tried_again(
    machine: Machine,
):
    machine.provide("dpkg-query", INSTALLED)
    machine.environment["PIP_NO_INDEX"] = "1"
    for _ in range(2):
        refusal = machine.run("setup", "firmware")
        assert refusal.returncode == 1
        assert "installing Python packages: failed" in refusal.stderr
        assert "no-such-package" in refusal.stderr


def test_a_long_step_says_how_far_it_is(machine: Machine):
    machine.provide("dpkg-query", NOT_INSTALLED)
    machine.provide("apt-get", '[ "$1" != update ] || { echo reading 3; sleep 5.5; }; exit 100')
    refusal = machine.run("setup")
    assert "refreshing the package index: 5 s  reading 3" in refusal.stderr


def test_an_interrupt_ends_the_step_and_leaves_nothing_running(machine: Machine):
    machine.provide("dpkg-query", NOT_INSTALLED)
    machine.provide("apt-get", 'echo $$ > "$CALLS.pid"; exec sleep 60')
    process = subprocess.Popen(
        [machine.root / "nearkv", "setup"],
        env=machine.environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    pid_file = Path(f"{machine.log}.pid")
    deadline_s = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "interrupted" in errors
    # Who ended without its parent is gone once init has noticed.
    deadline_s = time.monotonic() + 10
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline_s:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
