"""A guest under QEMU: CXL Type-3 devices with volatile memory on shared files, a shell.

Emulated by TCG: KVM would be faster, but not every machine that runs tests has it. Times in the
guest say nothing about a card.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pexpect
from nkv_abi import CARD_VECTORS

from .function import Function
from .image import Guest
from .overlay import LIBRARIES, PROGRAMS
from .topology import Topology

CARD = "/sys/class/misc/nearkv0/device/nearkv"
"""The card's attributes in the guest."""
CARD_PORT = "card"
"""QEMU's name of the root port above the engine's function."""
_PROMPT = "guest# "


class GuestError(RuntimeError):
    """The guest did not boot, died, or did not answer; the text ends with its console."""


@dataclass
class Machine:
    """A running guest. Leaving the context ends it. Not for several threads at once."""

    qemu: Sequence[str]
    environment: Mapping[str, str]
    guest: Guest
    folder: Path
    """For the devices' memory."""
    topology: Topology
    processors: int
    function_program: Path
    """nearkv-function of this build."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lost = False
        self.boot_s = 0.0

    @property
    def monitor_socket(self) -> Path:
        """Where QEMU takes commands of its monitor, by QMP: one client at a time."""
        return self.folder / "monitor"

    @property
    def memory_files(self) -> list[Path]:
        """What the guest stores to device n's memory stands in file n, at the same offset."""
        return [self.folder / f"cxl{n}.memory" for n in range(self.topology.devices)]

    def __enter__(self) -> Machine:
        for path in self.memory_files:
            with path.open("wb") as file:
                file.truncate(self.topology.memory_bytes)
        self._stack = ExitStack()
        if self.topology.engine:
            self.function = self._stack.enter_context(
                Function(
                    self.function_program,
                    self.topology.engine,
                    self.memory_files[0],
                    self.folder,
                    serial=1,
                    dynamic_bytes=self.topology.dynamic_bytes,
                )
            )
        start_s = time.monotonic()
        initramfs = self.folder / "initramfs"
        initramfs.write_bytes(b"".join(path.read_bytes() for path in self.guest.initramfs))
        words = [*self.qemu, *self._arguments()]
        self._console = pexpect.spawn(
            words[0],
            words[1:],
            env=os.environ | dict(self.environment),
            encoding="utf-8",
            codec_errors="replace",
            echo=False,
            timeout=120,
        )
        try:
            self._await(_PROMPT)
        except GuestError:
            self.close()
            raise
        self.boot_s = time.monotonic() - start_s
        # So that no line of an answer is wrapped or echoed.
        self.run("stty -echo -onlcr cols 4096")
        self.run(f"export PATH=/{PROGRAMS}:$PATH LD_LIBRARY_PATH=/{LIBRARIES}")
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(self, command: str, timeout_s: float = 60) -> tuple[int, str]:
        """Runs a line of shell; its exit status and what it and the kernel printed meanwhile.

        A guest that once did not answer is asked no more: GuestError at once.
        """
        if self._lost:
            raise GuestError("the guest did not answer an earlier command")
        number = next(self._numbers)
        self._console.sendline(f"{command}\necho @{number}:$?@")
        text = self._await(rf"@{number}:(\d+)@", timeout_s)
        status = int(self._console.match[1])
        lines = [line.removeprefix(_PROMPT).rstrip() for line in text.splitlines()]
        silence = ("", _PROMPT.rstrip())
        said = [line for line in lines if line not in silence and "echo @" not in line]
        return status, "\n".join(said)

    def check(self, command: str, timeout_s: float = 60) -> str:
        """As `run`, of a command that has to succeed: GuestError otherwise."""
        status, text = self.run(command, timeout_s)
        if status != 0:
            raise GuestError(f"`{command}` in the guest: status {status}\n{text}")
        return text

    def make_dax(self, granularity_bytes: int = 256) -> str:
        """Makes a region of all devices; the path of its DAX node."""
        devices = self._memory_devices()
        self.check(
            f"cxl create-region -m -d decoder0.0 -t ram -w {len(devices)} "
            f"-g {granularity_bytes} {' '.join(devices)}"
        )
        name = self.check("ls /sys/bus/dax/devices | tail -n 1")
        self.check(f"daxctl reconfigure-device --mode=devdax -f {name}")
        return f"/dev/{name}"

    def make_card(self) -> str:
        """Makes a region of the first device and gives it to the card; the path of its node."""
        self.check("nearkv card region nearkv0 && nearkv card attach nearkv0")
        return "/dev/nearkv0"

    def mount_host(self) -> str:
        """Mounts the host's files, with what a program needs of the guest's; their root.

        Where it may write there is /dev/shm: /tmp is the host's, and may hold what it runs.
        """
        self.check("modprobe -a 9pnet_virtio 9p; mkdir -p /host /dev/shm")
        self.check(
            "mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=1048576 host /host"
        )
        for folder in ("dev", "proc", "sys"):
            self.check(f"mount --bind /{folder} /host/{folder}")
        return "/host"

    def make_mock_devices(self) -> None:
        """Has the kernel make the mock CXL devices of cxl_test."""
        self.check("modprobe -a cxl_pmem cxl_mock_mem cxl_test", timeout_s=300)

    def _memory_devices(self) -> list[str]:
        """The kernel's names of devices by serial number: it may number them in any order."""
        listed = json.loads(self.check("cxl list -M"))
        return [entry["memdev"] for entry in sorted(listed, key=lambda entry: entry["serial"])]

    def interact(self) -> None:
        """Gives the terminal to the guest's shell until Ctrl-] or the guest's end."""
        self._console.sendline("stty echo onlcr")
        sys.stdout.write("\n")
        self._console.interact()

    def descriptors(self) -> list[str]:
        """What QEMU has open, as the kernel names it."""
        opened = []
        for link in Path(f"/proc/{self._console.pid}/fd").iterdir():
            # One may be closed meanwhile.
            with suppress(FileNotFoundError):
                opened.append(os.readlink(link))
        return opened

    def close(self) -> None:
        """Ends QEMU; what the devices' memory held stays in its files."""
        self._console.close(force=True)
        self._stack.close()

    def _await(self, pattern: str, timeout_s: float = 120) -> str:
        try:
            self._console.expect(pattern, timeout=timeout_s)
        except (pexpect.EOF, pexpect.TIMEOUT) as error:
            self._lost = True
            what = (
                "ended"
                if isinstance(error, pexpect.EOF)
                else f"did not answer in {timeout_s:.0f} s"
            )
            tail = "\n".join((self._console.before or "").splitlines()[-25:])
            raise GuestError(f"the guest {what}; the last lines of its console:\n{tail}") from error
        return str(self._console.before)

    def _arguments(self) -> list[str]:
        topology = self.topology
        memory = 3 if topology.host_root or topology.mock_devices else 1
        # Under a hypervisor the kernel refuses to flush caches, and with that to make regions. All
        # processors share a thread: QEMU 10.0 with several sends a processor's store to the wrong
        # device while another changes the map of memory, as a card that goes and comes does, and
        # the interrupt of a timer is lost for good.
        words = (
            "-machine q35,cxl=on -accel tcg,thread=single -cpu max,hypervisor=off "
            f"-m {memory}G,maxmem=16G,slots=4 -smp {self.processors} "
            "-nodefaults -display none -no-reboot -serial stdio"
        ).split()
        words += ["-qmp", f"unix:{self.monitor_socket},server=on,wait=off"]
        words += ["-kernel", str(self.guest.kernel), "-initrd", str(self.folder / "initramfs")]
        words += [
            "-append",
            "console=ttyS0 quiet panic=-1 mitigations=off memhp_default_state=offline",
        ]
        if topology.engine:
            words += ["-chardev", f"socket,id=function,path={self.function.socket}"]
            words += ["-device", f"pcie-root-port,id={CARD_PORT},bus=pcie.0,chassis=9,slot=9"]
            function = f"ivshmem-doorbell,id=engine,chardev=function,bus={CARD_PORT}"
            words += ["-device", f"{function},vectors={CARD_VECTORS}"]
        if topology.host_root:
            share = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
            words += ["-virtfs", share]
        targets = ",".join(f"cxl-fmw.0.targets.{n}=cxl.{n}" for n in range(topology.bridges))
        for n in range(topology.bridges):
            words += ["-device", f"pxb-cxl,id=cxl.{n},bus=pcie.0,bus_nr={12 + 16 * n}"]
        for n, path in enumerate(self.memory_files):
            backend = f"memory-backend-file,id=memory{n},share=on,mem-path={path}"
            port = (
                f"cxl-rp,id=port{n},bus=cxl.{n % topology.bridges},port={n},chassis=0,slot={n + 2}"
            )
            words += ["-object", f"{backend},size={topology.memory_bytes}"]
            words += ["-device", port]
            words += [
                "-device",
                f"cxl-type3,id=device{n},bus=port{n},volatile-memdev=memory{n},sn={n + 1}",
            ]
        return [*words, "-M", f"{targets},cxl-fmw.0.size=4G"]
