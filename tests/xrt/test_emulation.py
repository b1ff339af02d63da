"""Unmodified XRT applications on RTL kernels, through XRT's own hardware emulation."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from .emulation import VADD, Card, copy_vadd, make, require_emulation
from .processes import children_of, ends_soon, simulator_of, wait_for_end, wait_for_line

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    """Two compute units, two banks, and host memory for the second unit."""
    require_emulation()
    folder = tmp_path_factory.mktemp("card")
    units = [f"vadd_2.{name}:HOST[0]" for name in "abc"]
    done = make(
        folder,
        *("--top", str(VADD / "vadd.sv"), "--kernel-xml", str(VADD / "kernel.xml")),
        *("--nk", "vadd:2", "--bank", "DDR[0]=4GiB", "--bank", "DDR[1]=4GiB"),
        *("--bank", "HOST[0]=1GiB", "--sp", "vadd_1.c:DDR[1]", "--waves"),
        *(word for unit in units for word in ("--sp", unit)),
    )
    assert done.returncode == 0, done.stderr
    return Card(folder / "vadd.emu")


@pytest.fixture(scope="module")
def plain_card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    """Two units on one bank, whose protocol is ap_ctrl_chain."""
    require_emulation()
    folder = tmp_path_factory.mktemp("plain_card")
    done = make(
        folder,
        *("--top", str(VADD / "vadd.sv"), "--kernel-xml", str(VADD / "kernel.xml")),
        *("--protocol", "ap_ctrl_chain", "-G", "Chain=1", "--nk", "vadd:2", "-o", "chain"),
    )
    assert done.returncode == 0, done.stderr
    return Card(folder / "chain")


@pytest.mark.parametrize("words", [0, 1, 15, 16, 17, 4096, 50_000])
def test_the_example_adds(plain_card: Card, tmp_path: Path, words: int) -> None:
    status, text = plain_card.run(tmp_path, "xrt_vadd", str(plain_card.xclbin), str(words))
    assert status == 0, text
    assert f"{words} sums are right" in text


@pytest.mark.parametrize(
    "use",
    ["two_units", "queue", "registers", "copy_much", "copy_on_the_card", "shared_memory"],
)
def test_a_card_can_be_used_by(plain_card: Card, tmp_path: Path, use: str) -> None:
    status, text = plain_card.run(tmp_path, "xrt_application", use, str(plain_card.xclbin))
    assert status == 0, text
    assert f"{use} works" in text


@pytest.mark.parametrize("use", ["registers", "shared_memory", "host_memory"])
def test_units_have_banks_of_their_own(card: Card, tmp_path: Path, use: str) -> None:
    status, text = card.run(tmp_path, "xrt_application", use, str(card.xclbin))
    assert status == 0, text


def test_kernels_of_several_sources_share_a_card(tmp_path: Path) -> None:
    require_emulation()
    vadd = copy_vadd(tmp_path)
    other = tmp_path / "other.sv"
    other.write_text(vadd.read_text().replace("module vadd", "module other"))
    xml = (tmp_path / "kernel.xml").read_text()
    (tmp_path / "other.xml").write_text(xml.replace('kernel name="vadd"', 'kernel name="other"'))
    done = make(
        tmp_path,
        *("--top", str(other), "--kernel-xml", str(tmp_path / "other.xml")),
        *("--top", str(vadd), "--kernel-xml", str(tmp_path / "kernel.xml"), "-o", "card"),
    )
    assert done.returncode == 0, done.stderr
    card = Card(tmp_path / "card")
    assert card.xclbin.name == "other.xclbin"
    status, text = card.run(tmp_path, "xrt_vadd", str(card.xclbin), "100")
    assert status == 0, text


def test_xrts_own_scheduler_works(plain_card: Card, tmp_path: Path) -> None:
    ini = (plain_card.folder / "xrt.ini").read_text()
    assert "sws=false" in ini
    (tmp_path / "xrt.ini").write_text(ini.replace("sws=false", "sws=true"))
    settings = {"XRT_INI_PATH": str(tmp_path / "xrt.ini")}
    status, text = plain_card.run(
        tmp_path, "xrt_application", "queue", str(plain_card.xclbin), **settings
    )
    assert status == 0, text


def test_waves_are_written_where_asked(card: Card, tmp_path: Path) -> None:
    settings = {"NEARKV_XRT_WAVES": str(tmp_path)}
    status, text = card.run(tmp_path, "xrt_application", "registers", str(card.xclbin), **settings)
    assert status == 0, text
    assert (tmp_path / "vadd_1.fst").stat().st_size > 1000


def test_applications_run_side_by_side(plain_card: Card, tmp_path: Path) -> None:
    processes = [
        plain_card.start(tmp_path, "xrt_vadd", str(plain_card.xclbin), str(10_000 + i))
        for i in range(4)
    ]
    texts = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, texts


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_killed_application_leaves_nothing(
    plain_card: Card, tmp_path: Path, how: signal.Signals
) -> None:
    process = plain_card.start(tmp_path, "xrt_application", "linger", str(plain_card.xclbin))
    wait_for_line(process, "lingers")
    children = children_of(process.pid)
    assert children
    process.send_signal(how)
    wait_for_end(process)
    assert all(ends_soon(child) for child in children)


def test_an_interrupted_terminal_leaves_nothing(plain_card: Card, tmp_path: Path) -> None:
    process = plain_card.start(tmp_path, "xrt_application", "linger", str(plain_card.xclbin))
    wait_for_line(process, "lingers")
    children = children_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    wait_for_end(process)
    assert all(ends_soon(child) for child in children)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGBUS])
def test_a_killed_simulator_ends_the_application(
    plain_card: Card, tmp_path: Path, how: signal.Signals
) -> None:
    process = plain_card.start(tmp_path, "xrt_application", "linger", str(plain_card.xclbin))
    wait_for_line(process, "lingers")
    os.kill(simulator_of(process.pid), how)
    text, _ = process.communicate(timeout=20)
    # XRT may write to it just then, which ends an application as well.
    assert process.returncode in (-signal.SIGTERM, -signal.SIGPIPE)
    assert "the simulator has ended" in text


def test_settings_that_let_xrt_overrun_its_buffer_are_refused(
    plain_card: Card, tmp_path: Path
) -> None:
    (tmp_path / "xrt.ini").write_text("[Emulation]\nkeep_run_dir=false\n")
    settings = {"XRT_INI_PATH": str(tmp_path / "xrt.ini")}
    status, text = plain_card.run(tmp_path, "xrt_vadd", str(plain_card.xclbin), "16", **settings)
    assert status == -signal.SIGTERM
    assert "XRT's buffer would overflow" in text


def test_an_access_outside_memory_is_told(tmp_path: Path) -> None:
    require_emulation()
    # Its highest address bit is stuck.
    source = copy_vadd(
        tmp_path, "AskA ? a_q : b_q) + offset_q", "AskA ? a_q : b_q) + offset_q + (64'd1 << 50)"
    )
    done = make(tmp_path, "--top", str(source), "--kernel-xml", str(tmp_path / "kernel.xml"))
    assert done.returncode == 0, done.stderr
    card = Card(tmp_path / "vadd.emu")
    status, text = card.run(tmp_path, "xrt_vadd", str(card.xclbin), "16")
    assert status == 1
    assert re.search(r"vadd_1: m_axi_gmem0: a read at 0x4\w+ is in no bank of memory", text), text


def test_verilog_that_stops_ends_the_application(tmp_path: Path) -> None:
    require_emulation()
    source = copy_vadd(
        tmp_path, "if (reads) begin", 'if (reads) begin $fatal(1, "broken on purpose");'
    )
    done = make(tmp_path, "--top", str(source), "--kernel-xml", str(tmp_path / "kernel.xml"))
    assert done.returncode == 0, done.stderr
    card = Card(tmp_path / "vadd.emu")
    status, text = card.run(tmp_path, "xrt_vadd", str(card.xclbin), "16")
    assert status == -signal.SIGTERM
    assert "the simulator has ended" in text
