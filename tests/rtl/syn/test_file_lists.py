"""Every source of the RTL stands once in a list, which all tools that need the sources read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import file_list
import flow
import pytest

pytestmark = pytest.mark.quick

RTL = file_list.TOP.parent
EMULATOR = RTL.parent / "emulator"
AGILEX = RTL / "syn" / "agilex"
XRT = RTL.parent / "hls" / "xrt" / "engine"
LISTS = {
    "nkv_top": file_list.TOP,
    "afu_top": AGILEX / "afu_top.f",
    "nkv_xrt_kernel": XRT / "nkv_xrt_kernel.f",
}

# What no top has: harnesses of proofs, a technology's own modules, stand-ins, the firmware's.
_APART = re.compile("formal/|lib/tech/[a-z]+/|syn/agilex/stubs/|abi/gen/nkv_firmware_pkg")


def modules_of(files: list[Path]) -> Iterator[str]:
    """Modules and packages, each file's own, in the order of the files."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        yield from re.findall(r"^(?:module|package) (\w+)", text, re.MULTILINE)


@pytest.mark.parametrize("top", LISTS)
def test_a_list_names_each_file_once_and_its_top_among_them(top: str) -> None:
    files = file_list.read(LISTS[top])
    assert [str(file) for file in files if not file.is_file()] == []
    assert len(set(files)) == len(files)
    assert [file.stem for file in files] == list(modules_of(files))
    assert top in [file.stem for file in files]


def test_every_source_is_in_a_list() -> None:
    listed = {file for path in LISTS.values() for file in file_list.read(path)}
    there = {
        path
        for folder in (RTL, XRT)
        for path in folder.rglob("*.sv")
        if not _APART.match(os.path.relpath(path, RTL))
    }
    assert sorted(map(str, there ^ listed)) == []


def test_a_package_comes_behind_those_that_it_uses() -> None:
    seen: set[str] = set()
    for file in file_list.read():
        text = re.sub("//.*", "", file.read_text(encoding="utf-8"))
        used = set(re.findall(r"\b(nkv_\w+_pkg|nkv_pkg)::", text)) - {file.stem}
        assert used <= seen, f"{file.name}: {', '.join(used - seen)} come later"
        seen.add(file.stem)


def test_synthesis_reads_the_list_with_a_family_s_own_modules() -> None:
    listed = [str(path.relative_to(flow.ROOT)) for path in file_list.read()]
    assert flow.sources() == listed
    own = {f"rtl/lib/tech/xcup/{path.name}" for path in (flow.TECH / "xcup").glob("nkv_*.sv")}
    of_family = flow.sources("xcup")
    assert own <= set(of_family)
    assert {Path(file).name for file in of_family} >= {Path(file).name for file in listed}
    assert set(listed) - set(of_family) == {"rtl/exact/nkv_product_array.sv"}
    tops = {block.top for block in flow.load().blocks.values()}
    assert tops <= {Path(file).stem for file in listed}


# Quartus' commands, as far as the script uses them, which say what they are told.
_QUARTUS = """
package provide ::quartus::project 1.0
proc project_open {name} {}
proc project_close {} {}
proc export_assignments {} {}
proc get_all_global_assignments {- name} {
  if {$name eq "SYSTEMVERILOG_FILE"} {return {{0 1 rtl/afu_top.sv} {0 1 rtl/ed_top.sv}}}
}
proc foreach_in_collection {name collection body} {uplevel [list foreach $name $collection $body]}
proc set_global_assignment {args} {puts "assign $args"}
"""


def core_files(core: Path, fileset: str) -> list[Path]:
    """What a fileset of FuseSoC's names; a file may be the one key of its attributes."""
    yaml = pytest.importorskip("yaml")
    named = yaml.safe_load(core.read_text(encoding="utf-8"))["filesets"][fileset]["files"]
    names = [name if isinstance(name, str) else next(iter(name)) for name in named]
    return [(core.parent / name).resolve() for name in names]


def test_fusesoc_gets_the_list_of_nkv_top() -> None:
    assert core_files(RTL / "nearkv.core", "rtl") == file_list.read()


def test_fusesoc_and_make_simulate_the_same() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make not found")
    command = [make, "-C", RTL, "-B", "-n", "sim"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (verilator,) = (line for line in said.splitlines() if line.startswith("verilator"))
    made = {Path(word) for word in verilator.split() if word.endswith(".cpp")}
    card = core_files(EMULATOR / "card.core", "card")
    bench = core_files(RTL / "nearkv.core", "bench")
    assert {file for file in card + bench if file.suffix == ".cpp"} == made
    # FuseSoC copies what is named, and no other header.
    there = {path for path in EMULATOR.rglob("*.hpp")}
    includes = re.findall(
        r'^#include "([a-z_/]+\.hpp)"', "".join(f.read_text() for f in card + bench), re.MULTILINE
    )
    assert {EMULATOR / name for name in includes} == there & set(card)


def test_quartus_gets_the_list_of_afu_top(tmp_path: Path) -> None:
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.skip("tclsh not found")
    (tmp_path / "example.qpf").touch()
    script = tmp_path / "run.tcl"
    source = AGILEX / "nearkv.tcl"
    script.write_text(f"{_QUARTUS}\nset argc 1\nset argv {{{tmp_path}}}\nsource {{{source}}}\n")
    said = subprocess.run([tclsh, script], capture_output=True, text=True, check=True).stdout
    assigned = re.findall(r"^assign -name SYSTEMVERILOG_FILE (/.+)$", said, re.MULTILINE)
    assert [Path(file) for file in assigned] == file_list.read(AGILEX / "afu_top.f")
    assert "-remove rtl/afu_top.sv" in said
    assert "-remove rtl/ed_top.sv" not in said
