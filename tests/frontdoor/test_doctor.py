"""./nearkv doctor: every check says what it is for, and what mends it."""

import json
from pathlib import Path

import pytest

from nearkv import doctor

pytestmark = pytest.mark.quick

KEYS = {"group", "name", "state", "found", "purpose", "mend"}


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_json_has_every_key_and_mends_what_is_not_ok(capsys: pytest.CaptureFixture[str]):
    status = doctor.main(["--json"])
    report = json.loads(capsys.readouterr().out)
    checks = report["checks"]
    assert {check["group"] for check in checks} == {
        *("system", "memory", "sets", "build", "devices", "python", "engines")
    }
    for check in checks:
        assert check.keys() == KEYS
        assert check["state"] in ("ok", "missing", "optional")
        assert check["purpose"]
        assert bool(check["found"]) == (check["state"] == "ok")
        assert bool(check["mend"]) == (check["state"] != "ok"), check
    missing = [check["name"] for check in checks if check["state"] == "missing"]
    assert report["missing"] == missing
    assert status == (1 if missing else 0)


def test_what_the_issue_names_is_looked_for(capsys: pytest.CaptureFixture[str]):
    doctor.main(["--json"])
    names = {check["name"] for check in json.loads(capsys.readouterr().out)["checks"]}
    assert names >= {
        *("operating system", "processor", "NUMA nodes", "huge pages", "transparent huge pages"),
        *("DAX devices", "CXL memory devices", "libcxl", "XRT", "CUDA compiler", "CUDA devices"),
        *("OpenCL", "Verilator", "QEMU", "rv32 compiler", "pinned packages"),
    }


def test_text_names_each_check_and_its_mending(capsys: pytest.CaptureFixture[str]):
    doctor.main([])
    text = capsys.readouterr().out
    for section in (doctor.check_memory, doctor.check_devices):
        for check in section():
            assert check.name in text
            assert check.mend in text


def test_only_what_is_required_makes_the_status_1(monkeypatch: pytest.MonkeyPatch):
    def of(required: bool) -> list[doctor.Check]:
        return [doctor.Check.of("g", "n", "", "p", "do this", required=required)]

    monkeypatch.setattr(doctor, "_SECTIONS", (lambda: of(False),))
    assert doctor.main([]) == 0
    monkeypatch.setattr(doctor, "_SECTIONS", (lambda: of(False), lambda: of(True)))
    assert doctor.main([]) == 1


def test_memory_is_read_from_sysfs(tmp_path: Path):
    sysfs = _write(
        tmp_path,
        {
            "devices/system/node/node0/meminfo": "Node 0 MemTotal:  16777216 kB",
            "devices/system/node/node0/cpulist": "0-7\n",
            "devices/system/node/node10/meminfo": "Node 10 MemTotal:  67108864 kB",
            "devices/system/node/node10/cpulist": "\n",
            "kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "12\n",
            "kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "bus/dax/devices/dax0.0/size": f"{8 << 30}\n",
            "bus/cxl/devices/mem0/ram/size": "0x400000000\n",
        },
    )
    found = {check.name: check.found for check in doctor.check_memory(sysfs)}
    assert found["NUMA nodes"] == "node0 16.0 GiB (cpus 0-7), node10 64.0 GiB (memory only)"
    assert found["huge pages"] == "12 free of 2048kB"
    assert found["transparent huge pages"] == "madvise"
    assert found["DAX devices"] == "dax0.0 8.0 GiB"
    assert found["CXL memory devices"] == "mem0 16.0 GiB"


def test_a_kernel_that_offers_nothing_is_optional_everywhere(tmp_path: Path):
    states = {check.name: check.state for check in doctor.check_memory(tmp_path)}
    assert states["NUMA nodes"] == "ok"
    for name in ("huge pages", "transparent huge pages", "DAX devices", "CXL memory devices"):
        assert states[name] == "optional"


def test_processor_extensions_are_read_from_cpuinfo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    proc = _write(tmp_path, {"cpuinfo": "model name\t: A CPU\nflags\t\t: fpu avx2 fma avx512f\n"})
    states = {check.name: check.state for check in doctor.check_system(proc)}
    assert states["AVX2"] == "ok"
    assert states["AVX-512"] == "optional"  # not without BW and VL
    assert doctor.cpu_model(proc) == "A CPU"
    assert doctor.cpu_extensions(proc) == ["AVX2"]


def test_packages_are_held_to_their_pins(tmp_path: Path):
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"# comment\npytest=={pytest.__version__}\n")
    assert [check.state for check in doctor.check_python(pins)] == ["ok", "ok"]
    pins.write_text("pytest==0.1\nno-such-package==1\n")
    check = list(doctor.check_python(pins))[-1]
    assert check.state == "missing"
    assert check.mend.endswith(f"# pytest {pytest.__version__} instead of 0.1")


def test_sets_say_what_they_lack_and_how_to_get_it(tmp_path: Path):
    table = tmp_path / "sets.toml"
    table.write_text(
        '[sets.core]\nwhat = "a"\napt = ["no-such-package"]\n'
        '[sets.test]\nwhat = "b"\npip = ["pytest"]\n'
        '[sets.rtl]\nwhat = "c"\npip = ["none-of-these"]\n'
    )
    core, test, rtl = doctor.check_sets(table)
    assert (core.state, test.state, rtl.state) == ("missing", "ok", "optional")
    assert rtl.mend == "./nearkv setup rtl  # none-of-these"
