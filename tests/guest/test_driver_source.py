"""The driver's source by the kernel's own measures, and as DKMS builds it: no guest is booted."""

import os
import subprocess
from pathlib import Path

import pytest

from emulator.qemu.driver import SOURCE, kernel_headers
from emulator.qemu.driver_checks import check_style, check_types
from emulator.qemu.image import backports
from emulator.qemu.platform import CACHE


def test_sparse_and_the_compiler_have_nothing_to_say(kernel, need_program, tmp_path):
    need_program("sparse", "sparse")
    check_types(tmp_path / "driver", kernel_headers(*kernel))


@pytest.mark.usefixtures("kernel")
def test_checkpatch_has_nothing_to_say():
    assert check_style(CACHE, backports(CACHE), print) == ""


def test_dkms_builds_and_installs_it(kernel, need_program, tmp_path: Path):
    need_program("dkms", "dkms")
    if os.geteuid() != 0:
        pytest.skip("dkms installs for root only")
    headers, release = kernel_headers(*kernel), kernel[1]
    for folder in ("tree", "sources", "rules", f"modules/{release}"):
        (tmp_path / folder).mkdir(parents=True)
    trees = f"--dkmstree {tmp_path}/tree --sourcetree {tmp_path}/sources"
    words = [f"DKMS=dkms {trees} --installtree {tmp_path}/modules --no-depmod"]
    words += [f"SOURCES={tmp_path}/sources", f"RULES={tmp_path}/rules"]
    done = subprocess.run(
        ["make", "-C", SOURCE, "dkms", f"RELEASE={release}", f"KERNEL={headers}", *words],
        capture_output=True,
        text=True,
    )
    logs = [path.read_text() for path in tmp_path.glob("tree/nearkv/*/build/make.log")]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
    (module,) = tmp_path.glob(f"modules/{release}/updates/dkms/nearkv.ko*")
    magic = subprocess.run(
        ["modinfo", "--field", "vermagic", module], capture_output=True, text=True, check=True
    ).stdout
    assert magic.split()[0] == release
    assert (tmp_path / "rules" / "99-nearkv.rules").exists()
