"""What `nearkv xrt-emu` says of kernels and wishes that it cannot serve."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .emulation import VADD, copy_vadd, make, require_emulation

pytestmark = pytest.mark.timeout(900)

_XML = ("--kernel-xml", str(VADD / "kernel.xml"))


@pytest.fixture(autouse=True)
def _emulation() -> None:
    require_emulation()


def refusal(folder: Path, *arguments: str) -> str:
    """What it says, when it makes nothing."""
    done = make(folder, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("*.emu/*.xclbin"))
    return done.stderr


def test_help_says_how_to_begin(tmp_path: Path) -> None:
    done = make(tmp_path, "--help")
    assert done.returncode == 0
    assert "source vadd.emu/env.sh" in done.stdout


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no file absent.sv" in refusal(tmp_path, "--top", "absent.sv")


def test_no_verilator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = refusal(tmp_path, "--top", str(VADD / "vadd.sv"), *_XML)
    assert "there is no verilator here" in text


def test_verilog_that_is_wrong(tmp_path: Path) -> None:
    source = copy_vadd(tmp_path, "endmodule", "endmodul")
    text = refusal(tmp_path, "--top", str(source), *_XML)
    assert "Verilator does not take" in text
    assert "syntax error" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ap_clk", "clock", "there is no clock ap_clk"),
        ("s_axi_control_bvalid", "s_axi_control_bvalidd", "lacks the ports s_axi_control_bvalid"),
        ("m_axi_gmem1_wdata", "m_axi_gmem1_data", "lacks the ports m_axi_gmem1_wdata"),
        ("m_axi_gmem1_", "m_axi_out_", "argument c uses m_axi_gmem1"),
    ],
)
def test_ports_that_are_missing(tmp_path: Path, old: str, new: str, words: str) -> None:
    source = copy_vadd(tmp_path)
    source.write_text(source.read_text().replace(old, new))
    assert words in refusal(tmp_path, "--top", str(source), *_XML)


def test_streams_are_not_emulated(tmp_path: Path) -> None:
    source = copy_vadd(
        tmp_path, "output logic        interrupt,", "output logic interrupt, input logic in_tvalid,"
    )
    assert "AXI4-Stream, which is not emulated" in refusal(tmp_path, "--top", str(source), *_XML)


def test_a_kernel_xml_of_another_kernel(tmp_path: Path) -> None:
    copy_vadd(tmp_path)
    (tmp_path / "vadd.sv").rename(tmp_path / "other.sv")
    text = refusal(tmp_path, "--top", "other.sv:vadd", "--kernel-xml", str(tmp_path / "none.xml"))
    assert "none.xml cannot be read as XML" in text
    (tmp_path / "none.xml").write_text("<root><kernel name='sub'/></root>")
    text = refusal(tmp_path, "--top", "other.sv:vadd", "--kernel-xml", str(tmp_path / "none.xml"))
    assert "no kernel 'vadd'" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arg", "n=int"), "NAME:TYPE@OFFSET[:PORT]"),
        (("--arg", "n:vec3@0x10"), "no type 'vec3'"),
        (("--arg", "a:int*@0x10"), "needs the AXI4 master"),
        (("--arg", "n:int@0x10000"), "outside the control registers"),
        ((*_XML, "--nk", "vadd"), "--nk: KERNEL:N"),
        ((*_XML, "--nk", "sub:2"), "there is no kernel sub, but vadd"),
        ((*_XML, "--bank", "DDR=4GiB"), "--bank: TAG=SIZE"),
        ((*_XML, "--sp", "vadd_1.x:DDR[0]"), "there is no buffer vadd_1.x, but vadd_1.a"),
        ((*_XML, "--sp", "vadd_1.a:HBM[7]"), "there is no bank 'HBM[7]', but DDR[0]"),
        ((*_XML, "--memory-latency", "0"), "1 cycle or more"),
    ],
)
def test_wishes_that_cannot_be_had(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal(tmp_path, "--top", str(VADD / "vadd.sv"), *arguments)


def test_arguments_can_stand_on_the_command_line(tmp_path: Path) -> None:
    buffers = [("a", "0x10", "gmem0"), ("b", "0x1c", "gmem0"), ("c", "0x28", "gmem1")]
    done = make(
        tmp_path,
        *("--top", str(VADD / "vadd.sv"), "--arg", "words:uint32_t@0x34", "-o", os.fspath("card")),
        *(f"--arg={name}:uint*@{offset}:m_axi_{port}" for name, offset, port in buffers),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "card" / "vadd.xclbin").exists()
