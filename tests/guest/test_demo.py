"""The demo inside the guest: the host's Python and model, the guest's kernel, driver and card."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.qemu.topology import Topology

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "engine_integration" / "models" / "recall_3m"
OPTIONS = ("--ask-only", "--prompt-tokens", "200", "--tokens", "6", "--json")
pytest.importorskip("nearkv.core", exc_type=ImportError)
pytestmark = [
    # To import torch in an emulated processor takes minutes; on a debugging kernel it takes seven.
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not SHIPPED.is_dir(),
        reason="the shipped model recall_3m is not in this tree",
    ),
]


def demo(device: str, written: str) -> list[str]:
    model = ["--model", str(SHIPPED), "--device", device]
    return [sys.executable, "-m", "nearkv.demo", *model, *OPTIONS, written]


def test_a_short_document_gives_the_same_tokens_in_the_guest(platform, tmp_path):
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    file = tmp_path / "demo.json"
    subprocess.run(demo("model:", str(file)), check=True, env=os.environ | paths, cwd=ROOT)
    expected = json.loads(file.read_text())
    assert expected["answer_right"]

    with platform.boot(Topology(engine="model:", host_root=True)) as guest:
        guest.make_card()
        words = demo("linux:/dev/nearkv0?memory=64MiB", "/dev/shm/demo.json")
        script = f"cd {shlex.quote(str(ROOT))} && {shlex.join(words)}"
        root = guest.mount_host()
        environment = (
            f"PYTHONPATH={shlex.quote(paths['PYTHONPATH'])} TMPDIR=/dev/shm LD_LIBRARY_PATH="
        )
        guest.check(f"{environment} chroot {root} /bin/sh -c {shlex.quote(script)}", timeout_s=1000)
        found = json.loads(guest.check("cat /dev/shm/demo.json"))
    assert found["tokens_equal"]
    assert found["texts"] == expected["texts"]
    for figure in ("link_bytes_per_token", "near_bytes_per_token", "needle"):
        assert found[figure] == expected[figure]
